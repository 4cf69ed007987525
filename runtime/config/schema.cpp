#include "runtime/config/schema_sections.h"

namespace runtime::config {
namespace {

Section job() {
  return {"job",
          "What the run is called and where its files go.",
          {{.name = "description",
            .default_text = "\"\"",
            .documentation = "free text, kept with the run"},
           {.name = "dump_folder",
            .default_text = "\"\"",
            .documentation = "folder of the run's files, relative to where the program was "
                             "started; empty: outputs/<config name>/<time>"}}};
}

Section plugins() {
  return {"plugins",
          "Which plugins are loaded, besides RUNTIME_PLUGIN_PATH and the program's own.",
          {{.name = "path",
            .type = Type::kPaths,
            .default_text = "[]",
            .documentation = "plugin files or folders, relative to the file that says it"},
           {.name = "require",
            .type = Type::kStrings,
            .default_text = "[]",
            .documentation = "names of plugins without which the run must not start"}}};
}

Section device() {
  return {
      "device",
      "The hardware. A table [device.<plugin>] holds keys of that plugin's own: strings, "
      "numbers and booleans, which the plugin checks.",
      {{.name = "backend",
        .default_text = "\"auto\"",
        .documentation = "\"auto\" (the best usable one), \"cpu\", \"reference\" or the name "
                         "of any device plugin"},
       {.name = "index",
        .type = Type::kIntegersOrAuto,
        .default_text = "\"auto\"",
        .range = at_least(0, 1023),
        .documentation = "which device of the backend; \"auto\" or [] is the first; a list gives "
                         "one to each rank on this machine"},
       {.name = "threads",
        .type = Type::kIntegerOrAuto,
        .default_text = "\"auto\"",
        .range = at_least(0, 4096),
        .documentation = "threads of a CPU backend; \"auto\" or 0: the backend decides"},
       {.name = "tune",
        .default_text = "\"quick\"",
        .choices = {"off", "quick", "full"},
        .documentation = "how long layouts and algorithms are measured when the plan is made"}}};
}

Section model() {
  return {
      "model",
      "The layers: either the name of a preset or a list.",
      {{.name = "preset",
        .default_text = "\"\"",
        .documentation = "name of a file of configs/presets, which gives input and layers; input, "
                         "init and the keys below may still be set"},
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
       {.name = "outputs",
        .type = Type::kInteger,
        .default_text = "0",
        .range = at_least(0, 16777216),
        .documentation = "features of the last layer, a linear one, instead of its own, and the "
                         "vocabulary if it is tied: a preset for another number of classes or "
                         "characters; 0: as the layers say"},
       {.name = "dropout",
        .type = Type::kNumber,
        .default_text = "-1.0",
        .range = {.minimum = -1, .maximum = 1, .open_maximum = true},
        .documentation = "probability of every dropout layer, instead of its own; below 0: as each "
                         "says"},
       {.name = "init",
        .type = Type::kInit,
        .default_text = "\"default\"",
        .documentation = "initial weights: \"default\" (as PyTorch), \"xavier_uniform\", "
                         "\"xavier_normal\", \"kaiming_uniform\", \"kaiming_normal\", "
                         "{ normal = standard deviation }, { uniform = bound } or "
                         "{ constant = value }; a layer's own init goes before"},
       {.name = "init_from",
        .type = Type::kPath,
        .default_text = "\"\"",
        .documentation = "safetensors file to start from, relative to the file that says it"},
       {.name = "init_except",
        .type = Type::kStrings,
        .default_text = "[]",
        .documentation = "patterns of names that are not read from init_from: such parameters keep "
                         "their initial values, such entries of the file are not used; every other "
                         "must be in both, of the same shape"},
       {.name = "freeze",
        .type = Type::kStrings,
        .default_text = "[]",
        .documentation = "patterns of parameter names that are not trained, * matches any text; "
                         "running statistics of batch_norm follow the data all the same"}}};
}

std::vector<Key> dataset_files() {
  return {
      {.name = "name",
       .default_text = "\"\"",
       .choices = {"", "fashion_mnist", "mnist", "cifar10", "tiny_shakespeare", "synthetic"},
       .documentation = "a known data set, found in the folders of RUNTIME_DATA_PATH; or give "
                        "format and path"},
      {.name = "format",
       .default_text = "\"\"",
       .choices = {"", "idx", "cifar10", "csv", "npy", "images", "text", "tokens", "synthetic"},
       .documentation = "format of path"},
      {.name = "path",
       .type = Type::kDataPath,
       .default_text = "\"\"",
       .documentation =
           "training samples. idx: the image file, or a folder with the four files under "
           "MNIST's names; cifar10: the folder; csv: the table; npy: the features; text: the text; "
           "tokens: token ids, nothing else; "
           "images: a folder with a folder of PNG and JPEG files for each class, or with two such "
           "folders, train and val; with a name: the folder, empty to search RUNTIME_DATA_PATH. "
           "Relative paths here: "
           "beside "
           "the file that says it, else in the working folder, else in RUNTIME_DATA_PATH"},
      {.name = "target_path",
       .type = Type::kDataPath,
       .default_text = "\"\"",
       .documentation = "idx, npy: the targets"},
      {.name = "validation_path",
       .type = Type::kDataPath,
       .default_text = "\"\"",
       .documentation = "validation samples, as path; empty: see validation_split"},
      {.name = "validation_target_path",
       .type = Type::kDataPath,
       .default_text = "\"\"",
       .documentation = "idx, npy: the targets of validation_path"},
      {.name = "features",
       .type = Type::kStrings,
       .default_text = "[]",
       .documentation = "csv: feature columns by name or number from 0; empty: all but the target"},
      {.name = "target",
       .default_text = "\"\"",
       .documentation = "csv: the column to predict, by name or number from 0; \"-1\" is the last"},
      {.name = "task",
       .default_text = "\"classification\"",
       .choices = {"classification", "regression", "next_token"},
       .documentation = "csv, npy, synthetic: whether a target is a class or a number; "
                        "\"next_token\": synthetic tokens, of `classes` kinds, for a language "
                        "model"},
      {.name = "tokenizer",
       .default_text = "\"\"",
       .choices = {"", "char", "byte", "gpt2"},
       .documentation = "text, tokens: what a token is. \"char\", the default for text: the "
                        "characters of the (UTF-8) text in the order of their code points, kept "
                        "with the weights; \"byte\": 256; \"gpt2\": byte-pair encoding. tokens: "
                        "how `predict` reads and writes text; \"\": as numbers"},
      {.name = "tokenizer_path",
       .type = Type::kDataPath,
       .default_text = "\"\"",
       .documentation = "gpt2: the folder that holds vocab.json and merges.txt"},
      {.name = "token_type",
       .default_text = "\"uint16\"",
       .choices = {"uint16", "uint32"},
       .documentation = "tokens: type of an id in the file, little-endian"},
      {.name = "stride",
       .type = Type::kInteger,
       .default_text = "0",
       .range = at_least(0, kMaxCount),
       .documentation = "text, tokens: tokens between the beginnings of two training samples, "
                        "windows of model.input tokens; 0: that length, 1: every offset. "
                        "Validation samples never overlap"}};
}

std::vector<Key> dataset_batches() {
  return {
      {.name = "shuffle",
       .type = Type::kBoolean,
       .default_text = "true",
       .documentation = "a new order every epoch, from debug.seed"},
      {.name = "last_batch",
       .default_text = "\"keep\"",
       .choices = {"drop", "pad", "keep"},
       .documentation = "the last, smaller batch of an epoch: left out, filled up with samples of "
                        "weight 0, or kept smaller"},
      {.name = "validation_split",
       .type = Type::kNumber,
       .default_text = "0.0",
       .range = from_zero_to_below(1),
       .documentation =
           "share of the training samples (text, tokens: of the tokens), the last ones, kept for "
           "validation instead of the data set's own validation part"},
      {.name = "prefetch",
       .type = Type::kInteger,
       .default_text = "2",
       .range = at_least(0, 64),
       .documentation = "batches prepared ahead in the background"},
      {.name = "samples",
       .type = Type::kInteger,
       .default_text = "0",
       .range = at_least(0, kMaxCount),
       .documentation = "synthetic: number of samples (required there)"},
      {.name = "classes",
       .type = Type::kInteger,
       .default_text = "0",
       .range = at_least(0, 16777216),
       .documentation = "number of classes, or of different tokens; 0: from the data. synthetic "
                        "classes and tokens need it"},
      {.name = "resize",
       .type = Type::kIntegers,
       .default_text = "[]",
       .range = at_least(1, 16384),
       .max_items = 2,
       .documentation = "images: [height, width] to scale to; empty: as they are"},
      {.name = "resize_shorter",
       .type = Type::kInteger,
       .default_text = "0",
       .range = at_least(0, 16384),
       .documentation = "images: the shorter side is scaled to this, the other in proportion, and "
                        "resize is cut from the centre; 0: stretched to resize"},
      {.name = "random_crop",
       .type = Type::kInteger,
       .default_text = "0",
       .range = at_least(0, 4096),
       .documentation = "images, training: so many zeros (after mean and std) on each side, of "
                        "which a random part of the old size is cut out"},
      {.name = "random_flip",
       .type = Type::kBoolean,
       .default_text = "false",
       .documentation = "images, training: every other one, at random, is mirrored left to right"},
      {.name = "mean",
       .type = Type::kNumbers,
       .default_text = "[]",
       .documentation = "images: subtracted from each channel after scaling to 0..1"},
      {.name = "std",
       .type = Type::kNumbers,
       .default_text = "[]",
       .range = above_zero(),
       .documentation = "images: each channel is divided by it, after mean"},
      {.name = "standardize",
       .type = Type::kBoolean,
       .default_text = "false",
       .documentation =
           "each feature to mean 0 and deviation 1 of the training part; not with mean and std"}};
}

Section dataset() {
  Section section{"dataset", "The samples: the name of a known data set, or format and path.",
                  dataset_files()};
  for (Key& key : dataset_batches()) section.keys.push_back(std::move(key));
  return section;
}

Section parallelism() {
  return {"parallelism",
          "How the work is split over the ranks.",
          {{.name = "data",
            .type = Type::kInteger,
            .default_text = "-1",
            .range = at_least(-1, 65536),
            .documentation = "parts of a batch; -1: as many as there are ranks for each model"},
           {.name = "tensor",
            .type = Type::kInteger,
            .default_text = "1",
            .range = at_least(1, 4096),
            .documentation = "ranks that share each layer (heads, features, channels, vocabulary)"},
           {.name = "pipeline",
            .type = Type::kInteger,
            .default_text = "1",
            .range = at_least(1, 4096),
            .documentation = "ranks that share the layers, as consecutive stages"},
           {.name = "pipeline_schedule",
            .default_text = "\"1f1b\"",
            .choices = {"gpipe", "1f1b", "interleaved"},
            .documentation = "order of the micro-batches: all forward, then all backward; one of "
                             "each in turn; the same with two stages a rank"},
           {.name = "microbatches",
            .type = Type::kIntegerOrAuto,
            .default_text = "\"auto\"",
            .range = at_least(0, 65536),
            .documentation = "pipeline: micro-batches that a rank's part of a batch is cut in; "
                             "\"auto\": four a stage"},
           {.name = "zero_stage",
            .type = Type::kInteger,
            .default_text = "0",
            .range = at_least(0, 3),
            .documentation = "what the ranks of the data axis hold only a part of: 1: the "
                             "optimizer's state, 2: the gradients too, 3: the parameters too, "
                             "which are gathered ahead of their use"},
           {.name = "sync_batch_norm",
            .type = Type::kBoolean,
            .default_text = "false",
            .documentation = "batch normalisation over the global batch instead of each rank's "
                             "share; costs two small collectives a layer"},
           {.name = "update",
            .default_text = "\"synchronous\"",
            .choices = {"synchronous", "asynchronous"},
            .documentation = "asynchronous: gradients are applied as they arrive; see "
                             "runtime/train/README.md for what it does to convergence"},
           {.name = "max_staleness",
            .type = Type::kInteger,
            .default_text = "0",
            .range = at_least(0, 1024),
            .documentation = "asynchronous: steps that a rank may be ahead of the slowest; 0: "
                             "none, which is the synchronous update"},
           {.name = "share",
            .default_text = "\"equal\"",
            .choices = {"equal", "by_speed"},
            .documentation = "a rank's share of a batch: the same for all, or in proportion to "
                             "the speed measured at the start"}}};
}

Section comm() {
  return {
      "comm",
      "How the ranks talk. A table [comm.<plugin>] holds keys of that plugin's own.",
      {{.name = "backend",
        .default_text = "\"auto\"",
        .documentation = "\"local\" (ranks are threads of one process), \"gloo\", \"mpi\", "
                         "\"nccl\" or any communication plugin; \"auto\": mpi under mpirun, local "
                         "for ranks on one machine, else gloo"},
       {.name = "rendezvous",
        .default_text = "\"auto\"",
        .choices = {"auto", "file", "redis", "pmix", "env"},
        .documentation = "where the ranks find each other; \"env\": RUNTIME_RENDEZVOUS says it"},
       {.name = "rendezvous_address",
        .default_text = "\"\"",
        .documentation = "file: a folder that all ranks share; redis: host:port"},
       {.name = "bucket_mb",
        .type = Type::kNumber,
        .default_text = "25.0",
        .range = above_zero(),
        .documentation = "MiB of gradients that are reduced together; the first bucket is smaller"},
       {.name = "overlap",
        .type = Type::kBoolean,
        .default_text = "true",
        .documentation = "buckets are reduced while the backward pass goes on"},
       {.name = "interface",
        .default_text = "\"lo\"",
        .documentation = "network interface or address that the ranks talk over"},
       {.name = "init_timeout_s",
        .type = Type::kNumber,
        .default_text = "60.0",
        .range = above_zero(),
        .documentation = "seconds within which all ranks must have come"},
       {.name = "timeout_s",
        .type = Type::kNumber,
        .default_text = "300.0",
        .range = above_zero(),
        .documentation = "seconds within which each collective must be done"},
       {.name = "check",
        .type = Type::kBoolean,
        .default_text = "false",
        .documentation = "compare every collective across the ranks before it starts (slow)"}}};
}

Section launch() {
  return {"launch",
          "Ranks on this machine.",
          {{.name = "ranks",
            .type = Type::kInteger,
            .default_text = "1",
            .range = at_least(1, 4096),
            .documentation = "ranks to start (--nproc): threads with comm.backend = \"local\", "
                             "else processes"},
           {.name = "devices",
            .type = Type::kStrings,
            .default_text = "[]",
            .documentation = "device of each rank on this machine as \"backend\" or "
                             "\"backend:index\", instead of device.backend and device.index"},
           {.name = "max_restarts",
            .type = Type::kInteger,
            .default_text = "0",
            .range = at_least(0, 1000000),
            .documentation = "times that all ranks are started again after one was lost"},
           {.name = "mpiexec",
            .default_text = "\"mpiexec\"",
            .documentation = "program that starts the ranks of comm.backend = \"mpi\""}}};
}

Section validation() {
  return {"validation",
          "When the validation samples are evaluated.",
          {{.name = "every_epochs",
            .type = Type::kInteger,
            .default_text = "1",
            .range = at_least(0, kMaxCount),
            .documentation = "epochs between evaluations; 0: not at the ends of epochs"},
           {.name = "every_steps",
            .type = Type::kInteger,
            .default_text = "0",
            .range = at_least(0, kMaxCount),
            .documentation = "steps between evaluations, besides those of every_epochs; 0: none"}}};
}

Section metrics() {
  return {"metrics",
          "What is reported while it trains.",
          {{.name = "log_every_steps",
            .type = Type::kInteger,
            .default_text = "50",
            .range = at_least(1, kMaxCount),
            .documentation = "steps between two reports"},
           {.name = "progress",
            .default_text = "\"auto\"",
            .choices = {"auto", "bar", "lines", "off"},
            .documentation = "\"auto\": a bar on a terminal, else JSON lines"},
           {.name = "jsonl",
            .type = Type::kBoolean,
            .default_text = "true",
            .documentation = "write metrics.jsonl into the run's folder"}}};
}

Section debug() {
  return {
      "debug",
      "Repeatability and checks.",
      {{.name = "seed",
        .type = Type::kInteger,
        .default_text = "42",
        .range = at_least(0),
        .documentation = "of initial weights, shuffles and dropout"},
       {.name = "deterministic",
        .type = Type::kBoolean,
        .default_text = "false",
        .documentation = "the same bits on any number of ranks: a batch is cut in "
                         "virtual_shards, layouts are never measured, a CPU computes with one "
                         "thread unless device.threads says how many"},
       {.name = "virtual_shards",
        .type = Type::kInteger,
        .default_text = "12",
        .range = at_least(1, 4096),
        .documentation = "deterministic: parts of a batch whose gradients are added in one "
                         "fixed tree; not fewer than ranks"},
       {.name = "check_replicas_every",
        .type = Type::kInteger,
        .default_text = "0",
        .range = at_least(0, kMaxCount),
        .documentation = "steps after which the parameters of all ranks are compared; 0: never"},
       {.name = "nan",
        .default_text = "\"stop\"",
        .choices = {"stop", "warn"},
        .documentation = "when the loss is not a number"}}};
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
