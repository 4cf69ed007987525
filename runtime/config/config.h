// The typed form of a configuration file. Every key, its default and its meaning is in
// configs/README.md; the schema in schema.h is the one list that the parser, the JSON schema and
// that document come from.
#ifndef RUNTIME_CONFIG_CONFIG_H_
#define RUNTIME_CONFIG_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/layer.h"
#include "runtime/config/ranks.h"

namespace runtime::config {

struct Job {
  std::string description;
  std::string dump_folder;  // "" in the file: outputs/<config name>/<time>
  bool overwrite = false;   // the files of an earlier run in dump_folder may be replaced
};

struct Plugins {
  std::vector<std::string> path;  // absolute after loading (relative to the file that says it)
  std::vector<std::string> require;
};

struct Device {
  std::string backend = "auto";
  std::vector<int64_t> index;  // "auto" is empty; several: one for each rank on this machine
  int threads = 0;             // "auto" is 0: the device decides
  std::string tune = "quick";  // off | quick | full
  bool graph_capture = true;   // where the device can (rt/capture.h)
  PluginOptions options;
};

struct Model {
  std::string preset;  // "" or a name of configs/presets
  std::vector<int64_t>
      input;  // shape of a sample: [channels, height, width] or [features]; tokens: [length]
  std::vector<Layer> layers;  // of the preset where one is named
  int64_t outputs = 0;        // features of the last linear layer; 0: as it says
  double dropout = -1;        // probability of every dropout layer; below 0: as each says
  Init init;
  std::string init_from;                 // weights file, absolute after loading, "" for none
  std::vector<std::string> init_except;  // patterns of names that are not read from it
  std::vector<std::string> freeze;
};

struct Dataset {
  std::string name;    // of a known data set, or "" with format + path
  std::string format;  // idx | cifar10 | csv | npy | images | text | tokens | synthetic
  std::string path;    // files; meaning by format, see configs/README.md
  std::string target_path;
  std::string validation_path;
  std::string validation_target_path;
  std::vector<std::string> features;    // csv columns; empty: all but the target
  std::string target;                   // csv column
  std::string task = "classification";  // classification | regression | next_token (synthetic)
  std::string tokenizer;                // char | byte | gpt2; "": char for text, none for tokens
  std::string tokenizer_path;           // gpt2: folder of vocab.json and merges.txt
  std::string token_type = "uint16";    // tokens: uint16 | uint32
  int64_t stride = 0;                   // text, tokens: between windows; 0: the context length
  bool shuffle = true;
  std::string last_batch = "keep";  // drop | pad | keep
  double validation_split = 0;      // 0..1: the last samples, before shuffling (Keras)
  int prefetch = 2;                 // batches
  int64_t samples = 0;              // synthetic: number of samples
  int classes = 0;                  // 0: from the data; synthetic: required for classification
  std::vector<int64_t> resize;      // [height, width]; empty: no
  int64_t resize_shorter = 0;       // shorter side, before `resize` is cut from the centre; 0: no
  int64_t random_crop = 0;          // training: pixels of padding; 0: no
  bool random_flip = false;         // training: horizontal
  std::vector<double> mean,
      std;                   // per channel, after scaling to 0..1; empty: none. csv: "standardize"
  bool standardize = false;  // csv, npy: per column, from the training part
};

struct Training {
  int64_t global_batch_size = 0;  // this or the next
  int64_t batch_size_per_rank = 0;
  int micro_batch_size = 0;  // "auto" is 0: a rank's whole share
  int64_t epochs = 0;        // epochs or steps; both 0: epochs = 1
  int64_t steps = 0;
  std::string dtype = "float32";         // float32 | float64
  std::string mixed_precision = "none";  // none | bf16 | f16; activations, beside float32 weights
  double max_norm = 0;                   // gradient clipping; 0: off
  std::string recompute = "none";        // none | blocks
  std::string loss = "auto";             // auto | cross_entropy | mean_squared_error
};

struct Optimizer {
  std::string name = "sgd";  // sgd | adamw
  double lr = 0.01;
  double momentum = 0;
  bool nesterov = false;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  std::string weight_decay_on = "all";  // all | matrices
};

struct LrScheduler {
  std::string name = "constant";    // constant | step | multi_step | cosine | linear
  int64_t step_size = 1;            // epochs between decays
  std::vector<int64_t> milestones;  // epochs of decays
  double gamma = 0.1;
  int64_t decay_steps = 0;  // cosine, linear: step at which min_lr is reached; 0: the last
  double min_lr = 0;
  int64_t warmup_steps = 0;
  std::string scale_with_batch = "none";  // none | linear | sqrt
  int64_t reference_batch_size = 0;
};

struct Validation {
  int64_t every_epochs = 1;  // 0: not at the ends of epochs
  int64_t every_steps = 0;   // 0: not by steps
};

struct Metrics {
  int64_t log_every_steps = 50;
  std::string progress = "auto";  // auto | bar | lines | off
  bool jsonl = true;
};

struct Debug {
  uint64_t seed = 42;
  bool deterministic = false;
  int virtual_shards = 12;
  int64_t check_replicas_every = 0;
  std::string nan = "stop";  // stop | warn
};

struct Config {
  std::string name;  // of the file, without folder and ".toml"
  Job job;
  Plugins plugins;
  Device device;
  Model model;
  Dataset dataset;
  Training training;
  Optimizer optimizer;
  LrScheduler lr_scheduler;
  Parallelism parallelism;
  Comm comm;
  Launch launch;
  Validation validation;
  Metrics metrics;
  Debug debug;
};

// One --set section.key=value; the value is TOML, or a bare word taken as a string.
struct Override {
  std::string key;
  std::string value;
};

// Reads, merges `extends`, applies overrides, fills presets, checks everything. Throws
// ConfigurationError whose text has file:line:column, the key, the actual and expected value and
// the nearest valid key. Opens no plugin and no data. `preset_folder` holds <preset>.toml files.
Config load(const std::string& path, const std::vector<Override>& overrides,
            const std::string& preset_folder);

// As load(), from a text instead of a file; messages call it <name>.toml. It may not extend files;
// relative paths in it are taken from the working folder.
Config load_text(std::string_view text, const std::string& name,
                 const std::vector<Override>& overrides = {},
                 const std::string& preset_folder = "");

// The resolved configuration as TOML, with the documentation of every key, that loads to the same
// Config without other files. (A preset is written out as layers, so `preset` is then empty.)
std::string to_toml(const Config& config);

// JSON schema (draft 2020-12) for editors.
std::string json_schema();

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_CONFIG_H_
