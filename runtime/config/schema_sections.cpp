// Declares the keys of all sections but those of training, with ranges, choices and documentation.
#include "runtime/config/inits.h"
#include "runtime/config/keys_of_choices.h"
#include "runtime/config/metrics.h"

namespace runtime::config {
namespace {

Section job() {
  return section(
      "job", &Config::job, "What the run is called and where its files go.",
      {key("description", &Job::description, "free text, kept with the run"),
       key("dump_folder", &Job::dump_folder,
           "folder of the run's files, relative to where the program was started; empty: "
           "outputs/<config name>/<time>"),
       key("overwrite", &Job::overwrite,
           "dump_folder may hold an earlier run, whose files are replaced; no other files are")});
}

Section plugins() {
  return section(
      "plugins", &Config::plugins,
      "Which plugins are loaded, besides RUNTIME_PLUGIN_PATH and the program's own.",
      {key("path", &Plugins::path, "plugin files or folders, relative to the file that says it")
           .as(Type::kPaths),
       key("require", &Plugins::require, "names of plugins without which the run must not start"),
       key("validate", &Plugins::validate,
           "check every call between the runtime and its plugins (memory, order, lifetimes, "
           "determinism) and end with exit code 3 at the first fault; much slower")});
}

Section device() {
  return section(
      "device", &Config::device,
      "The hardware. A table [device.<plugin>] holds keys of that plugin's own: "
      "strings, numbers and booleans, which `runtime plugins info` lists.",
      {key("backend", &Device::backend,
           "\"auto\" (the best usable one), \"cpu\", \"reference\" or the name of any "
           "device plugin"),
       key("index", &Device::index,
           "which device of the backend; \"auto\" or []: ranks on this machine take its "
           "usable devices in turn; a list gives one to each of them")
           .as(Type::kIntegersOrAuto)
           .in(at_least(0, 1023)),
       key("threads", &Device::threads,
           "threads of a CPU backend; \"auto\" or 0: the backend decides")
           .as(Type::kIntegerOrAuto)
           .in(at_least(0, 4096)),
       key("tune", &Device::tune,
           "how long layouts and algorithms are measured; kept unless the machine is busy")
           .one_of({"off", "quick", "full"}),
       key("graph_capture", &Device::graph_capture,
           "record a step once and replay it with one call, where the device can; a "
           "step that cannot be recorded says why"),
       key("host_fallback", &Device::host_fallback,
           "the plugin of a device in host memory (\"cpu\", \"reference\") that runs the "
           "operations which the device refuses, before they are composed of others; each "
           "use copies the operands to the host and back; \"\": none"),
       key("peak_tflops", &Device::peak_tflops,
           "what one device computes at most in the type of the products, in TFLOP/s, "
           "from its data sheet; then mfu is reported, the share of it that the model's "
           "forward and backward pass take; 0: unknown")
           .in(at_least(0)),
       key("timeout_s", &Device::timeout_s,
           "seconds after which a device that has not answered a call ends the run, unsaved, "
           "with exit code 3; more than the longest step takes; 0: never")
           .in(at_least(0))});
}

// Returns "\"default\", { uniform = bound }".
std::string names_of_inits() {
  std::string names;
  for (const InitRow& row : inits()) {
    names += (names.empty() ? "" : ", ");
    names +=
        row.value.empty() ? "\"" + row.name + "\"" : "{ " + row.name + " = " + row.value + " }";
  }
  return names + "; default is as PyTorch has it";
}

Section model() {
  return section(
      "model", &Config::model, "The layers: either the name of a preset or a list.",
      {key("preset", &Model::preset,
           "name of a file of configs/presets, which gives input and layers; input, init and the "
           "keys below may still be set"),
       key("input", &Model::input,
           "shape of one sample: [channels, height, width], [features], or [length] for tokens; a "
           "preset gives it")
           .in(at_least(1, 16777216))
           .at_most(4)
           .required(),
       key("layers", &Model::layers, "list of layer tables, see below; or a preset"),
       key("outputs", &Model::outputs,
           "features of the last layer, a linear one, instead of its own, and the vocabulary if it "
           "is tied: a preset for another number of classes or characters; 0: as the layers say")
           .in(at_least(0, 16777216)),
       key("dropout", &Model::dropout,
           "probability of every dropout layer, and of attention that has dropout, instead of its "
           "own; below 0: as each says")
           .in({.minimum = -1, .maximum = 1, .open_maximum = true}),
       key("init", &Model::init,
           "initial weights: " + names_of_inits() + "; a layer's own init goes before"),
       key("init_from", &Model::init_from,
           "safetensors file to start from, relative to the file that says it")
           .as(Type::kPath),
       key("init_except", &Model::init_except,
           "patterns of names that are not read from init_from: such parameters keep their initial "
           "values, such entries of the file are not used; every other must be in both, of the "
           "same shape"),
       key("init_append", &Model::init_append,
           "patterns of names that may have more rows than in init_from, for tokens that were "
           "added "
           "to a vocabulary: each new row begins as the mean of the others"),
       key("freeze", &Model::freeze,
           "patterns of parameter names that are not trained, * matches any text; running "
           "statistics of batch_norm follow the data all the same")});
}

// Returns "idx: the image file; csv: the table".
std::string paths_of_formats() {
  std::vector<KeyUse> uses;
  for (const Format& format : formats()) {
    if (!format.path.empty()) uses.push_back({format.name, format.path});
  }
  return join_uses(uses);
}

std::vector<KeyOf<Dataset>> dataset_files() {
  std::vector<std::string> names = names_of_rows(known_data()),
                           of_format = names_of_rows(formats());
  for (auto* list : {&names, &of_format}) list->insert(list->begin(), "");
  std::vector<KeyOf<Dataset>> keys = {
      key("name", &Dataset::name,
          "a known data set, found in the folders of RUNTIME_DATA_PATH; or give format and path")
          .one_of(std::move(names)),
      key("format", &Dataset::format,
          "format of path; \"<plugin>.<name>\" is one of a plugin, see `runtime plugins info`")
          .one_of(std::move(of_format))
          .or_of_plugin(),
      key("path", &Dataset::path,
          "training samples. " + paths_of_formats() +
              "; with a name: the folder, empty to search RUNTIME_DATA_PATH. Relative paths here: "
              "beside the file that says it, else in the working folder, else in "
              "RUNTIME_DATA_PATH")
          .as(Type::kDataPath),
      key("validation_path", &Dataset::validation_path,
          "validation samples, as path; empty: see validation_split")
          .as(Type::kDataPath),
      key("task", &Dataset::task,
          "csv, npy, sentences, synthetic, plugins: whether a target is a class or a number; "
          "\"next_token\": synthetic tokens, of `classes` kinds, or tokens of a plugin, for a "
          "language model; \"masked_token\": text, tokens: some are hidden, and the model fills "
          "them in")
          .one_of(names_of_rows(data_tasks()))};
  for (KeyOf<Dataset>& k : keys_of_choices(formats())) keys.push_back(std::move(k));
  return keys;
}

std::vector<KeyOf<Dataset>> dataset_batches() {
  return {
      key("shuffle", &Dataset::shuffle, "a new order every epoch, from debug.seed"),
      key("last_batch", &Dataset::last_batch,
          "the last, smaller batch of an epoch: left out, filled up with samples of weight 0, or "
          "kept smaller")
          .one_of({"drop", "pad", "keep"}),
      key("validation_split", &Dataset::validation_split,
          "share of the training samples (text, tokens: of the tokens), the last ones, kept for "
          "validation instead of the data set's own validation part")
          .in(from_zero_to_below(1)),
      key("prefetch", &Dataset::prefetch,
          "batches prepared ahead in the background; 0: within the step, without workers")
          .in(at_least(0, 64)),
      key("workers", &Dataset::workers,
          "threads of each rank that prepare these batches; their number changes no bit. 0: for "
          "images as many as device.threads, at most 8, else 1")
          .in(at_least(0, 256)),
      key("classes", &Dataset::classes,
          "number of classes, or of different tokens; 0: from the data. synthetic classes and "
          "tokens need it")
          .in(at_least(0, 16777216)),
      key("resize", &Dataset::resize, "images: [height, width] to scale to; empty: as they are")
          .in(at_least(1, 16384))
          .at_most(2),
      key("resize_shorter", &Dataset::resize_shorter,
          "images: the shorter side is scaled to this, the other in proportion, and resize is cut "
          "from the centre; 0: stretched to resize")
          .in(at_least(0, 16384)),
      key("random_crop", &Dataset::random_crop,
          "images, training: so many zeros (after mean and std) on each side, of which a random "
          "part of the old size is cut out")
          .in(at_least(0, 4096)),
      key("random_resized_crop", &Dataset::random_resized_crop,
          "images, training: a random part with at least this share of the area, 3/4 to 4/3 times "
          "as "
          "wide as high, is scaled to resize; often 0.08, as torchvision's RandomResizedCrop; 0: "
          "off")
          .in(at_least(0, 1)),
      key("random_flip", &Dataset::random_flip,
          "images, training: every other one, at random, is mirrored left to right"),
      key("mean", &Dataset::mean, "images: subtracted from each channel after scaling to 0..1"),
      key("std", &Dataset::std, "images: each channel is divided by it, after mean")
          .in(above_zero()),
      key("standardize", &Dataset::standardize,
          "each feature to mean 0 and deviation 1 of the training part; not with mean and std")};
}

KeyOf<Dataset> dataset_inputs() {
  KeyOf<Dataset> inputs =
      key("input", &Dataset::inputs,
          "idx, npy, cifar10, csv: tables [[dataset.input]], each a named input of the samples "
          "beside the features, which layers of the type input, or training.sample_weights, read");
  DatasetInput defaults;
  for (const KeyOf<DatasetInput>& k : keys_of_tables(&defaults)) {
    inputs.declared.item_keys.push_back(k.declared);
    Key& item = inputs.declared.item_keys.back();
    if (!item.required) item.default_text = default_text(k.field(defaults), item.type);
  }
  return inputs;
}

Section dataset() {
  std::vector<KeyOf<Dataset>> keys = dataset_files();
  keys.push_back(dataset_inputs());
  for (auto& key : dataset_batches()) keys.push_back(std::move(key));
  return section("dataset", &Config::dataset,
                 "The samples: the name of a known data set, or format and path. A table "
                 "[dataset.<plugin>] holds keys of the format of a plugin: strings, numbers and "
                 "booleans, which `runtime plugins info` lists.",
                 std::move(keys));
}

Section parallelism() {
  return section(
      "parallelism", &Config::parallelism, "How the work is split over the ranks.",
      {key("data", &Parallelism::data,
           "parts of a batch; -1: as many as there are ranks for each model")
           .in(at_least(-1, 65536)),
       key("tensor", &Parallelism::tensor,
           "ranks that share each layer (heads, features, channels, vocabulary)")
           .in(at_least(1, 4096)),
       key("pipeline", &Parallelism::pipeline, "ranks that share the layers, as consecutive stages")
           .in(at_least(1, 4096)),
       key("pipeline_schedule", &Parallelism::pipeline_schedule, "order of the micro-batches")
           .one_of_rows({{"gpipe", "all forward, then all backward"},
                         {"1f1b", "one of each in turn"},
                         {"interleaved", "the same with two stages a rank"}}),
       key("microbatches", &Parallelism::microbatches,
           "pipeline: micro-batches that a rank's part of a batch is cut in; \"auto\": four a "
           "stage, or as many as samples; interleaved: a multiple of pipeline")
           .as(Type::kIntegerOrAuto)
           .in(at_least(0, 65536)),
       key("zero_stage", &Parallelism::zero_stage,
           "what the ranks of the data axis hold only a part of: 1: the optimizer's state, 2: the "
           "gradients too, 3: the parameters too, which are gathered ahead of their use")
           .in(at_least(0, 3)),
       key("zero_ranks", &Parallelism::zero_ranks,
           "among how many neighbours on the data axis zero_stage divides: those of a machine, so "
           "that parameters are gathered inside of it and machines hold copies (hybrid sharding); "
           "0: among all ranks of the axis")
           .in(at_least(0, 65536)),
       key("sync_batch_norm", &Parallelism::sync_batch_norm,
           "batch normalisation over the global batch instead of each rank's share; costs two "
           "small collectives a layer"),
       key("update", &Parallelism::update,
           "asynchronous: gradients are applied as they arrive; see "
           "runtime/train/asynchronous/README.md for what it does to convergence")
           .one_of({"synchronous", "asynchronous"}),
       key("max_staleness", &Parallelism::max_staleness,
           "asynchronous: steps that a rank may be ahead of the slowest; 0: none, which is the "
           "synchronous update")
           .in(at_least(0, 1024)),
       key("share", &Parallelism::share,
           "a rank's share of a batch: the same for all, or in proportion to the speed measured at "
           "the start")
           .one_of({"equal", "by_speed"}),
       key("search", &Parallelism::search,
           "the ranks become the mesh of data, tensor and pipeline that the plan takes for the "
           "fastest of those that fit the memory; plan --world-size shows the table, and with "
           "cluster.tflops chooses zero_stage, zero_ranks, microbatches, pipeline_schedule, "
           "micro_batch_size "
           "and "
           "recompute as well")});
}

Section comm() {
  return section(
      "comm", &Config::comm,
      "How the ranks talk. A table [comm.<plugin>] holds keys of that plugin's own.",
      {key("backend", &Comm::backend,
           "\"local\" (ranks are threads of one process), \"gloo\", \"mpi\", \"nccl\" or any "
           "communication plugin; \"auto\": one that reads the memory of the ranks' devices, if "
           "each has its own; else mpi under mpirun, local for ranks on one machine, else gloo"),
       key("rendezvous", &Comm::rendezvous,
           "where the ranks find each other; \"tcp\": in a store that rank 0 keeps; \"env\": "
           "RUNTIME_RENDEZVOUS says it")
           .one_of({"auto", "file", "tcp", "redis", "pmix", "env"}),
       key("rendezvous_address", &Comm::rendezvous_address,
           "file: a folder that all ranks share; tcp: tcp://host:port, of rank 0; redis: "
           "host:port"),
       key("bucket_mb", &Comm::bucket_mb,
           "MiB of gradients that are reduced together; the first bucket is smaller, with "
           "zero_stage 2 and 3 all are if the model is small")
           .in(above_zero()),
       key("overlap", &Comm::overlap,
           "buckets are reduced while the backward pass goes on, and gathered ahead of their use"),
       key("interface", &Comm::interface, "network interface or address that the ranks talk over"),
       key("init_timeout_s", &Comm::init_timeout_s, "seconds within which all ranks must have come")
           .in(above_zero()),
       key("hang_s", &Comm::hang_s,
           "seconds of waiting in a collective after which a line says for which rank; 0: none "
           "does")
           .in(at_least(0)),
       key("timeout_s", &Comm::timeout_s, "seconds within which each collective must be done")
           .in(above_zero()),
       key("save_timeout_s", &Comm::save_timeout_s,
           "seconds that the other ranks wait for rank 0 while it saves the weights")
           .in(above_zero()),
       key("check", &Comm::check,
           "compare every collective across the ranks before it starts (slow)")});
}

Section launch() {
  return section(
      "launch", &Config::launch, "Ranks on this machine.",
      {key("ranks", &Launch::ranks,
           "ranks to start (--nproc): threads with comm.backend = \"local\", else processes")
           .in(at_least(1, 4096)),
       key("devices", &Launch::devices,
           "device of each rank on this machine as \"backend\" or \"backend:index\", instead of "
           "device.backend and device.index"),
       key("max_restarts", &Launch::max_restarts,
           "times that all ranks are started again after one was lost; they go on from the last "
           "checkpoint")
           .in(at_least(0, 1000000)),
       key("min_ranks", &Launch::min_ranks,
           "when a rank was lost once more than max_restarts times, the others go on from the last "
           "checkpoint without it, with the same global batch, as long as there are so many; 0: "
           "the run ends")
           .in(at_least(0, 4096)),
       key("rejoin_minutes", &Launch::rejoin_minutes,
           "minutes between looks at the device of a rank that was left out; if it is usable, the "
           "rank is taken in after the next checkpoint; 0: never")
           .in(at_least(0, 1e6)),
       key("mpiexec", &Launch::mpiexec, "program that starts the ranks of comm.backend = \"mpi\""),
       key("log_folder", &Launch::log_folder,
           "what each rank prints is also appended to rank<number>.log in this folder (relative to "
           "where the program was started), each line behind its time (UTC) and the machine, for "
           "ranks that are processes which this program starts; rank 0 then writes to no "
           "terminal; empty: no such files")});
}

Section cluster() {
  return section(
      "cluster", &Config::cluster,
      "Machines that are not here, for `runtime plan`: where the ranks lie, what connects them, "
      "and "
      "the data sheet of their devices.",
      {key("nodes", &Cluster::nodes, "machines of the cluster").in(at_least(1, 65536)),
       key("devices_per_node", &Cluster::devices_per_node,
           "devices of a machine, each with one rank; rank r is on machine r / devices_per_node; "
           "0: "
           "all ranks are on one machine")
           .in(at_least(0, 4096)),
       key("tflops", &Cluster::tflops,
           "what a device computes in the type of the products, in TFLOP/s; products reach two "
           "thirds of most data sheets. With memory_tbps: times are computed from both and none is "
           "measured; 0: the device of this machine is")
           .in(at_least(0)),
       key("memory_tbps", &Cluster::memory_tbps, "bandwidth of a device's memory, in TB/s")
           .in(at_least(0)),
       key("memory_gib", &Cluster::memory_gib, "memory of a device; 0: as much as the one here has")
           .in(at_least(0)),
       key("launch_us", &Cluster::launch_us,
           "microseconds from the end of one kernel to the begin of the next")
           .in(at_least(0)),
       key("link_latency_us", &Cluster::link_latency_us,
           "latency of a message between two ranks of a machine, in microseconds; 0: what the "
           "communication plugin says (runtime plugins info NAME); runtime bench comm measures it")
           .in(at_least(0)),
       key("link_gbps", &Cluster::link_gbps,
           "what a rank sends, and receives at the same time, inside its machine, in Gbit/s; 0: as "
           "the plugin says")
           .in(at_least(0)),
       key("network_latency_us", &Cluster::network_latency_us,
           "latency of a message between machines; 0: as inside one")
           .in(at_least(0)),
       key("network_gbps", &Cluster::network_gbps,
           "what one connection of a machine to the network sends, in Gbit/s; 0: as inside one")
           .in(at_least(0)),
       key("network_sharers", &Cluster::network_sharers,
           "ranks that share such a connection: 1, if each device has its own; devices_per_node, "
           "if "
           "a machine has one")
           .in(at_least(1, 4096))});
}

Section validation() {
  return section("validation", &Config::validation, "When the validation samples are evaluated.",
                 {key("every_epochs", &Validation::every_epochs,
                      "epochs between evaluations; 0: not at the ends of epochs")
                      .in(at_least(0, kMaxCount)),
                  key("every_steps", &Validation::every_steps,
                      "steps between evaluations, besides those of every_epochs; 0: none")
                      .in(at_least(0, kMaxCount)),
                  key("metrics", &Validation::metrics,
                      "what is computed over all validation samples besides the loss and, for "
                      "classes, the accuracy. " +
                          metrics_documentation() +
                          ". All are scikit-learn's; runtime/train/metrics/README.md has the "
                          "definitions"),
                  key("monitor", &Validation::monitor,
                      "what says which validation is the best: for early stopping, for the "
                      "checkpoints that are kept, and for the schedule plateau: loss, accuracy, "
                      "or one of metrics")});
}

Section early_stopping() {
  return section(
      "early_stopping", &Config::early_stopping,
      "When the run ends because validation.monitor no longer gets better, as Keras does it.",
      {key("patience", &EarlyStopping::patience,
           "the run ends after so many validations in a row that are no improvement; 0: never")
           .in(at_least(0, kMaxCount)),
       key("min_delta", &EarlyStopping::min_delta, "a smaller change is no improvement")
           .in(at_least(0)),
       key("restore_best", &EarlyStopping::restore_best,
           "save the weights of the best validation at the end, also of a run that was not stopped "
           "early; needs checkpoint.keep_best of at least 1")});
}

Section checkpoint() {
  return section(
      "checkpoint", &Config::checkpoint,
      "When the run is saved in checkpoints/ of its folder, so that --resume can go on from there. "
      "It is saved at its end and after a signal, too. All intervals 0: never.",
      {key("interval_steps", &Checkpoint::interval_steps, "steps between two checkpoints; 0: none")
           .in(at_least(0, kMaxCount)),
       key("interval_epochs", &Checkpoint::interval_epochs,
           "epochs between two checkpoints; 0: none")
           .in(at_least(0, kMaxCount)),
       key("interval_minutes", &Checkpoint::interval_minutes,
           "minutes between two checkpoints; 0: none")
           .in(at_least(0, 1e6)),
       key("keep_latest", &Checkpoint::keep_latest,
           "newest checkpoints that are kept; 0: all of them")
           .in(at_least(0, kMaxCount)),
       key("keep_best", &Checkpoint::keep_best,
           "checkpoints that are kept besides because validation.monitor was best after them; a "
           "validation that is among the best is saved")
           .in(at_least(0, 1000)),
       key("resume", &Checkpoint::resume,
           "--resume: \"auto\" goes on from the newest checkpoint of dump_folder, or of the newest "
           "run of this configuration (of the run itself, if the configuration is the config.toml "
           "of its folder), and begins if there is none; else the folder of a run or of a "
           "checkpoint")});
}

Section metrics_section() {
  return section(
      "metrics", &Config::metrics, "What is reported while it trains.",
      {key("log_every_steps", &Metrics::log_every_steps, "steps between two reports")
           .in(at_least(1, kMaxCount)),
       key("progress", &Metrics::progress,
           "\"auto\": a bar on a terminal, else JSON lines; \"epochs\": one line for each epoch; "
           "\"off\": warnings and errors only")
           .one_of({"auto", "bar", "epochs", "lines", "off"}),
       key("jsonl", &Metrics::jsonl, "write metrics.jsonl into the run's folder"),
       key("csv", &Metrics::csv, "write metrics.csv into the run's folder, for spreadsheets"),
       key("tensorboard", &Metrics::tensorboard,
           "write event files into tensorboard/ of the run's folder; tensorboard --logdir outputs "
           "shows all runs"),
       key("ranks", &Metrics::ranks,
           "each rank writes ranks/rank<number>.jsonl into the run's folder, on its machine: what "
           "a step has cost it, how long it has waited for other ranks and for its data, its "
           "memory and its device"),
       key("prometheus_port", &Metrics::prometheus_port,
           "each rank shows these numbers and those of metrics.jsonl at "
           "http://<prometheus_address>:<port>/metrics in the text format of Prometheus; the port "
           "of a machine's first rank, and the ranks after it there have the ports after it; 0: "
           "off")
           .in(at_least(0, 65535)),
       key("prometheus_address", &Metrics::prometheus_address,
           "the address of this machine that prometheus_port belongs to; the pages are neither "
           "encrypted nor protected by a password, so \"0.0.0.0\" (all interfaces) is for a "
           "network that you trust")});
}

Section profiling() {
  return section(
      "profiling", &Config::profiling,
      "Steps whose operations are timed one by one: a table at the end of the run, and "
      "profile.json "
      "and trace.json (for Perfetto or chrome://tracing) in its folder. A cycle is wait + warmup + "
      "active steps, as in torch.profiler.schedule.",
      {key("enabled", &Profiling::enabled, "profile the run"),
       key("wait", &Profiling::wait, "steps of a cycle that come first and are not recorded")
           .in(at_least(0, kMaxCount)),
       key("warmup", &Profiling::warmup, "steps that are recorded next and not reported")
           .in(at_least(0, 1000)),
       key("active", &Profiling::active, "steps that are recorded and reported")
           .in(at_least(1, 1000)),
       key("repeat", &Profiling::repeat,
           "cycles; all of them are reported together, at most 1000 active steps")
           .in(at_least(1, 1000)),
       key("memory_gbps", &Profiling::memory_gbps,
           "bandwidth for the roofline, in 1e9 bytes a second; 0: those of additions of several "
           "sizes, measured at the end of the run")
           .in(at_least(0)),
       key("gflops", &Profiling::gflops,
           "arithmetic for the roofline, in 1e9 operations a second; 0: that of a large product, "
           "measured at the end of the run")
           .in(at_least(0))});
}

Section debug() {
  return section(
      "debug", &Config::debug, "Repeatability and checks.",
      {key("seed", &Debug::seed, "of initial weights, shuffles and dropout").in(at_least(0)),
       key("deterministic", &Debug::deterministic,
           "the same bits on any number of ranks: a batch is cut in virtual_shards, layouts are "
           "never measured, a CPU computes with one thread unless device.threads says how many; "
           "with batch_norm layers it implies parallelism.sync_batch_norm"),
       key("virtual_shards", &Debug::virtual_shards,
           "deterministic: parts of a batch whose gradients are added in one fixed tree; not fewer "
           "than ranks")
           .in(at_least(1, 4096)),
       key("check_replicas_every", &Debug::check_replicas_every,
           "steps after which the parameters of all ranks are compared; 0: never")
           .in(at_least(0, kMaxCount)),
       key("nan", &Debug::nan, "when the loss is not a number").one_of({"stop", "warn"})});
}

}  // namespace

const std::vector<KeyOf<DatasetInput>>& keys_of_tables(const DatasetInput*) {
  using D = DatasetInput;
  static const std::vector<KeyOf<D>>& keys = *new std::vector<KeyOf<D>>{
      key("name", &D::name, "its name: small letters, digits and _").required(),
      key("path", &D::path, "an NPY file [samples, ...]; empty: columns").as(Type::kDataPath),
      key("validation_path", &D::validation_path, "the same of the validation samples")
          .as(Type::kDataPath),
      key("columns", &D::columns,
          "csv: columns by name or number from 0, which are no features then"),
      key("type", &D::type, "of its numbers").one_of({"float32", "int32"})};
  return keys;
}

const std::vector<Section>& sections() {
  static const std::vector<Section>& all =
      *new std::vector<Section>{job(),         plugins(),        device(),     model(),
                                dataset(),     training(),       optimizer(),  lr_scheduler(),
                                parallelism(), comm(),           launch(),     cluster(),
                                validation(),  early_stopping(), checkpoint(), metrics_section(),
                                profiling(),   debug()};
  return all;
}

const std::vector<Exclusive>& exclusives() {
  static const std::vector<Exclusive>& all = *new std::vector<Exclusive>{
      {"model", "preset", "layers"},
      {"dataset", "name", "format"},
      {"dataset", "validation_path", "validation_split"},
      {"training", "epochs", "steps"},
      {"training", "global_batch_size", "batch_size_per_rank"},
  };
  return all;
}

const Key& extends_key() {
  static const Key key = {.name = "extends",
                          .type = Type::kPaths,
                          .default_text = "[]",
                          .max_items = 16,
                          .documentation =
                              "files merged before this one, in order, relative to "
                              "it; arrays and layer lists replace"};
  return key;
}

}  // namespace runtime::config
