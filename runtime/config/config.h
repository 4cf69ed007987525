// The typed form of a configuration file: one struct for each section of the same name, those of
// training and of ranks in training.h and ranks.h. configs/README.md has every key with its default
// and its meaning. A key is a member of its struct, with its default, and an entry of
// schema_sections.cpp or schema_training.cpp, from which the parser, the JSON schema and that
// document are made; README.md of this folder says which.
#ifndef RUNTIME_CONFIG_CONFIG_H_
#define RUNTIME_CONFIG_CONFIG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/layer.h"
#include "runtime/config/open_operation.h"
#include "runtime/config/ranks.h"
#include "runtime/config/training.h"
#include "runtime/row_of.h"

namespace runtime::config {

// [job]: what the run is called and where its files go.
struct Job {
  std::string description;  // free text, kept with the run
  std::string dump_folder;  // empty: outputs/<config name>/<time>
  bool overwrite = false;   // whether files of an earlier run in dump_folder may be replaced
};

// [plugins]: which plugins are loaded.
struct Plugins {
  std::vector<std::string> path;     // in the file relative to its folder; absolute after loading
  std::vector<std::string> require;  // names of plugins without which the run does not start
  bool validate = false;             // every call to a plugin is checked; slow
};

// [device]: the hardware.
struct Device {
  std::string backend = "auto";
  std::vector<int64_t> index;  // "auto": empty; a list: one for each rank on this machine
  int threads = 0;             // "auto": 0, the device decides
  std::string tune = "quick";  // off | quick | full
  bool graph_capture = true;   // where the device supports it (rt/capture.h)
  std::string host_fallback;   // the plugin that runs what the device refuses; "": none
  double peak_tflops = 0;      // of one device, for reports of its use; 0: unknown
  double timeout_s = 0;        // a call that takes longer ends the run; 0: none does
  PluginOptions options;       // of [device.<plugin>]
};

// [model]: the layers and their initial weights.
struct Model {
  std::string preset;  // "" or a name of configs/presets
  std::vector<int64_t>
      input;  // shape of one sample: [channels, height, width], [features] or [length] in tokens
  std::vector<Layer> layers;                // those of the preset where one is named
  std::shared_ptr<const LayerTypes> types;  // of `layers`, if plugins brought some; else null
  int64_t outputs = 0;  // features of the last linear layer; 0: as that layer says
  double dropout = -1;  // probability of every dropout layer; below 0: as each layer says
  Init init;
  std::string init_from;                 // weights file, absolute after loading, "" for none
  std::vector<std::string> init_except;  // patterns of names not read from init_from
  std::vector<std::string> init_append;  // patterns of names that may have more rows than there
  std::vector<std::string> freeze;       // patterns of names of parameters that are not trained
};

// [[dataset.input]]: a named input of the samples.
struct DatasetInput {
  std::string name;
  std::string path, validation_path;  // NPY files; empty: columns of a table
  std::vector<std::string> columns;   // csv
  std::string type = "float32";       // float32 | int32
  bool operator==(const DatasetInput&) const = default;
};

// [dataset]: the samples, their files and how they are read.
struct Dataset {
  std::string name;    // name of a known data set; empty: format and path are given
  std::string format;  // a row of formats(), or "<plugin>.<name>"
  std::string path;    // the files; the meaning depends on the format, see configs/README.md
  std::string target_path;
  std::string validation_path;
  std::string validation_target_path;
  std::vector<DatasetInput> inputs;     // idx, npy, cifar10, csv
  std::vector<std::string> features;    // CSV columns; empty: all columns but the target
  std::vector<std::string> texts;       // sentences: one column or two
  std::string target;                   // CSV column
  std::string header = "auto";          // CSV: auto | yes | no
  std::string task = "classification";  // classification | regression | next_token (synthetic,
                                        // plugin) | masked_token (text, tokens)
  double mask_share = 0.15;             // masked_token: of the tokens
  std::string mask_token;               // masked_token: the token that stands for a hidden one
  std::string tokenizer;       // char | byte | gpt2 | hf; empty: char for text, none for tokens
  std::string tokenizer_path;  // gpt2: folder with vocab.json and merges.txt; hf: tokenizer.json
  std::string invalid_utf8 = "refuse";  // text: refuse | replace
  std::string token_type = "uint16";    // tokens: uint16 | uint32
  std::string separator;                // text, tokens: the token that ends a document
  int64_t stride = 0;                   // text, tokens: tokens between windows; 0: context length
  bool shuffle = true;
  std::string last_batch = "keep";  // drop | pad | keep
  double validation_split = 0;      // 0..1: taken from the end, before shuffling, as Keras does
  int prefetch = 2;                 // batches that are prepared ahead of the step
  int workers = 0;                  // threads that prepare them; 0: as the format needs
  int64_t samples = 0;              // synthetic: the number of samples
  int classes = 0;                  // 0: from the data; synthetic classification needs at least 1
  std::vector<int64_t> resize;      // [height, width] in pixels; empty: images keep their size
  int64_t resize_shorter = 0;       // pixels of the shorter side before `resize` crops; 0: off
  int64_t random_crop = 0;          // training: pixels of padding; 0: off
  bool random_flip = false;         // training: flips images horizontally
  double random_resized_crop = 0;   // training: least share of the area of a random part; 0: off
  std::vector<double> mean,
      std;                   // of each channel, after scaling to 0..1; empty: not normalised
  bool standardize = false;  // csv, npy: each column, with statistics of the training samples
  PluginOptions options;     // of [dataset.<plugin>]
};

// [metrics]: what is reported during the run.
struct Metrics {
  int64_t log_every_steps = 50;
  std::string progress = "auto";  // auto | bar | epochs | lines | off
  bool jsonl = true;              // whether metrics.jsonl is written
  bool csv = false;               // whether metrics.csv is written
  bool tensorboard = false;       // whether event files of TensorBoard are written
  bool ranks = false;             // whether each rank writes ranks/rank<number>.jsonl
  int prometheus_port = 0;        // of the first rank of a machine; 0: no numbers over HTTP
  std::string prometheus_address = "127.0.0.1";
};

// [debug]: seed, reproducibility and checks.
struct Debug {
  uint64_t seed = 42;
  bool deterministic = false;
  int virtual_shards = 12;
  int64_t check_replicas_every = 0;
  std::string nan = "stop";  // stop | warn
  bool stops_at_nan() const {
    return row_of<bool>("debug.nan", nan, {{"stop", true}, {"warn", false}});
  }
};

// A whole configuration, with every default filled in.
struct Config {
  std::string name;  // name of the file without its folder and ".toml"
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
  Cluster cluster;
  Validation validation;
  EarlyStopping early_stopping;
  Checkpoint checkpoint;
  Metrics metrics;
  Profiling profiling;
  Debug debug;
};

// One command-line argument --set section.key=value. The value is a TOML value; a bare word is
// taken as a string.
struct Override {
  std::string key;
  std::string value;
  // The name of another option that stands for the key; messages then say it instead of --set.
  std::string option = {};
};

// Reads the file, merges what it extends, applies the overrides, fills in the preset and checks
// everything. `preset_folder` holds the files <preset>.toml. Opens no plugin and no data. Throws
// ConfigurationError whose text has file:line:column, the key, the actual and the expected value
// and the nearest valid key.
// `types` are the types of layers that exist (model::layer_types()); they must outlive the result.
// `find_open` is asked for those of plugins; without it there are none.
Config load(const std::string& path, const std::vector<Override>& overrides,
            const std::string& preset_folder, const std::vector<LayerType>& types,
            const FindOpenTypes& find_open = {});

// Does the same as load() with a text instead of a file; messages call it <name>.toml. The text
// cannot extend files. Its relative paths are taken from the working folder.
Config load_text(std::string_view text, const std::string& name,
                 const std::vector<Override>& overrides, const std::string& preset_folder,
                 const std::vector<LayerType>& types, const FindOpenTypes& find_open = {});

// Returns the resolved configuration as TOML, with the documentation of every key. It loads to the
// same Config without other files: a preset is written out as layers, and `preset` is then empty.
std::string to_toml(const Config& config);

// Returns the JSON schema (draft 2020-12) of a configuration file, for editors.
std::string json_schema(const std::vector<LayerType>& types);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_CONFIG_H_
