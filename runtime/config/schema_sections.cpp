#include "runtime/config/schema_sections.h"

namespace runtime::config {
namespace {

Section job() {
  return {"job",
          "What the run is called and where its files go.",
          {text("description", "\"\"", "free text, kept with the run"),
           text("dump_folder", "\"\"",
                "folder of the run's files, relative to where the program was started; empty: "
                "outputs/<config name>/<time>"),
           flag("overwrite", "false",
                "dump_folder may hold an earlier run, whose files are replaced; no other files "
                "are")}};
}

Section plugins() {
  return {"plugins",
          "Which plugins are loaded, besides RUNTIME_PLUGIN_PATH and the program's own.",
          {of_type(Type::kPaths, "path", "[]",
                   "plugin files or folders, relative to the file that says it"),
           of_type(Type::kStrings, "require", "[]",
                   "names of plugins without which the run must not start")}};
}

Section device() {
  return {
      "device",
      "The hardware. A table [device.<plugin>] holds keys of that plugin's own: strings, "
      "numbers and booleans, which the plugin checks.",
      {text("backend", "\"auto\"",
            "\"auto\" (the best usable one), \"cpu\", \"reference\" or the name of any device "
            "plugin"),
       {.name = "index",
        .type = Type::kIntegersOrAuto,
        .default_text = "\"auto\"",
        .range = at_least(0, 1023),
        .documentation = "which device of the backend; \"auto\" or []: ranks on this machine take "
                         "its usable devices in turn; a list gives one to each of them"},
       {.name = "threads",
        .type = Type::kIntegerOrAuto,
        .default_text = "\"auto\"",
        .range = at_least(0, 4096),
        .documentation = "threads of a CPU backend; \"auto\" or 0: the backend decides"},
       choice("tune", "\"quick\"", {"off", "quick", "full"},
              "how long layouts and algorithms are measured when the plan is made"),
       flag("graph_capture", "true",
            "record a step once and replay it with one call, where the device can; a step that "
            "cannot be recorded says why")}};
}

Section model() {
  return {
      "model",
      "The layers: either the name of a preset or a list.",
      {text("preset", "\"\"",
            "name of a file of configs/presets, which gives input and layers; input, init and the "
            "keys below may still be set"),
       {.name = "input",
        .type = Type::kIntegers,
        .required = true,
        .range = at_least(1, 16777216),
        .max_items = 4,
        .documentation = "shape of one sample: [channels, height, width], [features], or [length] "
                         "for tokens; a preset gives it"},
       {.name = "layers",
        .type = Type::kLayers,
        .documentation = "list of layer tables, see below; or a preset"},
       integer(
           "outputs", "0", at_least(0, 16777216),
           "features of the last layer, a linear one, instead of its own, and the vocabulary if it "
           "is tied: a preset for another number of classes or characters; 0: as the layers say"),
       number("dropout", "-1.0", {.minimum = -1, .maximum = 1, .open_maximum = true},
              "probability of every dropout layer, instead of its own; below 0: as each says"),
       of_type(Type::kInit, "init", "\"default\"",
               "initial weights: \"default\" (as PyTorch), \"xavier_uniform\", \"xavier_normal\", "
               "\"kaiming_uniform\", \"kaiming_normal\", { normal = standard deviation }, { "
               "uniform = bound } or { constant = value }; a layer's own init goes before"),
       of_type(Type::kPath, "init_from", "\"\"",
               "safetensors file to start from, relative to the file that says it"),
       of_type(Type::kStrings, "init_except", "[]",
               "patterns of names that are not read from init_from: such parameters keep their "
               "initial values, such entries of the file are not used; every other must be in "
               "both, of the same shape"),
       of_type(Type::kStrings, "freeze", "[]",
               "patterns of parameter names that are not trained, * matches any text; running "
               "statistics of batch_norm follow the data all the same")}};
}

std::vector<Key> dataset_files() {
  return {
      choice(
          "name", "\"\"",
          {"", "fashion_mnist", "mnist", "cifar10", "tiny_shakespeare", "synthetic"},
          "a known data set, found in the folders of RUNTIME_DATA_PATH; or give format and path"),
      choice("format", "\"\"",
             {"", "idx", "cifar10", "csv", "npy", "images", "text", "tokens", "synthetic"},
             "format of path"),
      of_type(Type::kDataPath, "path", "\"\"",
              "training samples. idx: the image file, or a folder with the four files under "
              "MNIST's names; cifar10: the folder; csv: the table; npy: the features; text: the "
              "text; tokens: token ids, nothing else; images: a folder with a folder of PNG and "
              "JPEG files for each class, or with two such folders, train and val; with a name: "
              "the folder, empty to search RUNTIME_DATA_PATH. Relative paths here: beside the file "
              "that says it, else in the working folder, else in RUNTIME_DATA_PATH"),
      of_type(Type::kDataPath, "target_path", "\"\"", "idx, npy: the targets"),
      of_type(Type::kDataPath, "validation_path", "\"\"",
              "validation samples, as path; empty: see validation_split"),
      of_type(Type::kDataPath, "validation_target_path", "\"\"",
              "idx, npy: the targets of validation_path"),
      of_type(Type::kStrings, "features", "[]",
              "csv: feature columns by name or number from 0; empty: all but the target"),
      text("target", "\"\"",
           "csv: the column to predict, by name or number from 0; \"-1\" is the last"),
      choice("task", "\"classification\"", {"classification", "regression", "next_token"},
             "csv, npy, synthetic: whether a target is a class or a number; \"next_token\": "
             "synthetic tokens, of `classes` kinds, for a language model"),
      choice("tokenizer", "\"\"", {"", "char", "byte", "gpt2"},
             "text, tokens: what a token is. \"char\", the default for text: the characters of the "
             "(UTF-8) text in the order of their code points, kept with the weights; \"byte\": "
             "256; \"gpt2\": byte-pair encoding. tokens: how `predict` reads and writes text; "
             "\"\": as numbers"),
      of_type(Type::kDataPath, "tokenizer_path", "\"\"",
              "gpt2: the folder that holds vocab.json and merges.txt"),
      choice("token_type", "\"uint16\"", {"uint16", "uint32"},
             "tokens: type of an id in the file, little-endian"),
      integer(
          "stride", "0", at_least(0, kMaxCount),
          "text, tokens: tokens between the beginnings of two training samples, windows of "
          "model.input tokens; 0: that length, 1: every offset. Validation samples never overlap")};
}

std::vector<Key> dataset_batches() {
  return {
      flag("shuffle", "true", "a new order every epoch, from debug.seed"),
      choice("last_batch", "\"keep\"", {"drop", "pad", "keep"},
             "the last, smaller batch of an epoch: left out, filled up with samples of weight 0, "
             "or kept smaller"),
      number("validation_split", "0.0", from_zero_to_below(1),
             "share of the training samples (text, tokens: of the tokens), the last ones, kept for "
             "validation instead of the data set's own validation part"),
      integer("prefetch", "2", at_least(0, 64), "batches prepared ahead in the background"),
      integer("samples", "0", at_least(0, kMaxCount),
              "synthetic: number of samples (required there)"),
      integer("classes", "0", at_least(0, 16777216),
              "number of classes, or of different tokens; 0: from the data. synthetic classes and "
              "tokens need it"),
      {.name = "resize",
       .type = Type::kIntegers,
       .default_text = "[]",
       .range = at_least(1, 16384),
       .max_items = 2,
       .documentation = "images: [height, width] to scale to; empty: as they are"},
      integer("resize_shorter", "0", at_least(0, 16384),
              "images: the shorter side is scaled to this, the other in proportion, and resize is "
              "cut from the centre; 0: stretched to resize"),
      integer("random_crop", "0", at_least(0, 4096),
              "images, training: so many zeros (after mean and std) on each side, of which a "
              "random part of the old size is cut out"),
      flag("random_flip", "false",
           "images, training: every other one, at random, is mirrored left to right"),
      of_type(Type::kNumbers, "mean", "[]",
              "images: subtracted from each channel after scaling to 0..1"),
      {.name = "std",
       .type = Type::kNumbers,
       .default_text = "[]",
       .range = above_zero(),
       .documentation = "images: each channel is divided by it, after mean"},
      flag("standardize", "false",
           "each feature to mean 0 and deviation 1 of the training part; not with mean and std")};
}

Section dataset() {
  Section section{"dataset", "The samples: the name of a known data set, or format and path.",
                  dataset_files()};
  for (Key& key : dataset_batches()) section.keys.push_back(std::move(key));
  return section;
}

Section parallelism() {
  return {
      "parallelism",
      "How the work is split over the ranks.",
      {integer("data", "-1", at_least(-1, 65536),
               "parts of a batch; -1: as many as there are ranks for each model"),
       integer("tensor", "1", at_least(1, 4096),
               "ranks that share each layer (heads, features, channels, vocabulary)"),
       integer("pipeline", "1", at_least(1, 4096),
               "ranks that share the layers, as consecutive stages"),
       choice("pipeline_schedule", "\"1f1b\"", {"gpipe", "1f1b", "interleaved"},
              "order of the micro-batches: all forward, then all backward; one of each in turn; "
              "the same with two stages a rank"),
       {.name = "microbatches",
        .type = Type::kIntegerOrAuto,
        .default_text = "\"auto\"",
        .range = at_least(0, 65536),
        .documentation = "pipeline: micro-batches that a rank's part of a batch is cut in; "
                         "\"auto\": four a stage; interleaved: a multiple of pipeline"},
       integer("zero_stage", "0", at_least(0, 3),
               "what the ranks of the data axis hold only a part of: 1: the optimizer's state, 2: "
               "the gradients too, 3: the parameters too, which are gathered ahead of their use"),
       flag("sync_batch_norm", "false",
            "batch normalisation over the global batch instead of each rank's share; costs two "
            "small collectives a layer"),
       choice("update", "\"synchronous\"", {"synchronous", "asynchronous"},
              "asynchronous: gradients are applied as they arrive; see "
              "runtime/train/asynchronous/README.md for what it does to convergence"),
       integer("max_staleness", "0", at_least(0, 1024),
               "asynchronous: steps that a rank may be ahead of the slowest; 0: none, which is the "
               "synchronous update"),
       choice("share", "\"equal\"", {"equal", "by_speed"},
              "a rank's share of a batch: the same for all, or in proportion to the speed measured "
              "at the start"),
       flag("search", "false",
            "the ranks become the mesh of data, tensor and pipeline that the plan takes for the "
            "fastest of those that fit the memory; plan --world-size shows the table")}};
}

Section comm() {
  return {
      "comm",
      "How the ranks talk. A table [comm.<plugin>] holds keys of that plugin's own.",
      {text("backend", "\"auto\"",
            "\"local\" (ranks are threads of one process), \"gloo\", \"mpi\", \"nccl\" or any "
            "communication plugin; \"auto\": one that reads the memory of the ranks' devices, if "
            "each has its own; else mpi under mpirun, local for ranks on one machine, else gloo"),
       choice("rendezvous", "\"auto\"", {"auto", "file", "redis", "pmix", "env"},
              "where the ranks find each other; \"env\": RUNTIME_RENDEZVOUS says it"),
       text("rendezvous_address", "\"\"", "file: a folder that all ranks share; redis: host:port"),
       number("bucket_mb", "25.0", above_zero(),
              "MiB of gradients that are reduced together; the first bucket is smaller, with "
              "zero_stage 2 and 3 all are if the model is small"),
       flag("overlap", "true",
            "buckets are reduced while the backward pass goes on, and gathered ahead of their use"),
       text("interface", "\"lo\"", "network interface or address that the ranks talk over"),
       number("init_timeout_s", "60.0", above_zero(),
              "seconds within which all ranks must have come"),
       number("timeout_s", "300.0", above_zero(),
              "seconds within which each collective must be done"),
       number("save_timeout_s", "1800.0", above_zero(),
              "seconds that the other ranks wait for rank 0 while it saves the weights"),
       flag("check", "false",
            "compare every collective across the ranks before it starts (slow)")}};
}

Section launch() {
  return {
      "launch",
      "Ranks on this machine.",
      {integer("ranks", "1", at_least(1, 4096),
               "ranks to start (--nproc): threads with comm.backend = \"local\", else processes"),
       of_type(Type::kStrings, "devices", "[]",
               "device of each rank on this machine as \"backend\" or \"backend:index\", instead "
               "of device.backend and device.index"),
       integer("max_restarts", "0", at_least(0, 1000000),
               "times that all ranks are started again after one was lost"),
       text("mpiexec", "\"mpiexec\"", "program that starts the ranks of comm.backend = \"mpi\"")}};
}

Section validation() {
  return {"validation",
          "When the validation samples are evaluated.",
          {integer("every_epochs", "1", at_least(0, kMaxCount),
                   "epochs between evaluations; 0: not at the ends of epochs"),
           integer("every_steps", "0", at_least(0, kMaxCount),
                   "steps between evaluations, besides those of every_epochs; 0: none")}};
}

Section metrics() {
  return {"metrics",
          "What is reported while it trains.",
          {integer("log_every_steps", "50", at_least(1, kMaxCount), "steps between two reports"),
           choice("progress", "\"auto\"", {"auto", "bar", "lines", "off"},
                  "\"auto\": a bar on a terminal, else JSON lines"),
           flag("jsonl", "true", "write metrics.jsonl into the run's folder")}};
}

Section debug() {
  return {
      "debug",
      "Repeatability and checks.",
      {integer("seed", "42", at_least(0), "of initial weights, shuffles and dropout"),
       flag("deterministic", "false",
            "the same bits on any number of ranks: a batch is cut in virtual_shards, layouts are "
            "never measured, a CPU computes with one thread unless device.threads says how many; "
            "with batch_norm layers it implies parallelism.sync_batch_norm"),
       integer("virtual_shards", "12", at_least(1, 4096),
               "deterministic: parts of a batch whose gradients are added in one fixed tree; not "
               "fewer than ranks"),
       integer("check_replicas_every", "0", at_least(0, kMaxCount),
               "steps after which the parameters of all ranks are compared; 0: never"),
       choice("nan", "\"stop\"", {"stop", "warn"}, "when the loss is not a number")}};
}

}  // namespace

const std::vector<Section>& sections() {
  static const std::vector<Section> all = {
      job(),          plugins(),     device(), model(),  dataset(),    training(), optimizer(),
      lr_scheduler(), parallelism(), comm(),   launch(), validation(), metrics(),  debug()};
  return all;
}

const std::vector<Exclusive>& exclusives() {
  static const std::vector<Exclusive> all = {
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

const std::vector<std::string>& unsupported_sections() {
  static const std::vector<std::string> all = {"checkpoint", "early_stopping", "profiling"};
  return all;
}

}  // namespace runtime::config
