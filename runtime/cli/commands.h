// The commands of the `runtime` program: the arguments of each and the function that runs it. The
// parser is not included here, because its header compiles slowly. A command throws runtime::Error
// or plugins::host::Error, which main() turns into an exit code.
#ifndef RUNTIME_CLI_COMMANDS_H_
#define RUNTIME_CLI_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/host/registry.h"
#include "runtime/cli/arguments.h"
#include "runtime/train/generate.h"

namespace runtime::cli {

// Runs the command that the command line names, or prints help or an error; returns the exit code.
int run_command_line(int argc, char** argv);

struct TrainArguments {
  ConfigArguments config;
  std::string weights;
  std::string resume;     // "", "auto" or a path
  int64_t max_steps = 0;  // 0: as the configuration says
};
// Trains, and saves weights in the folder of the run.
void run_train(const TrainArguments& arguments, Outcome& outcome);

struct EvaluateArguments {
  ConfigArguments config;
  std::string weights;
  std::string part = "validation";  // of the data set: "training" or "validation"
  // Instead of validation.metrics; empty: as the configuration says.
  std::vector<std::string> metrics;
  std::string format = "auto";  // json | table | auto: a table on a terminal, else json
};
// Prints the loss, the accuracy and validation.metrics of saved weights.
void run_evaluate(const EvaluateArguments& arguments, Outcome& outcome);

struct PredictArguments {
  ConfigArguments config;
  std::string weights;
  std::string prompt = "\n";  // for language models
  int64_t tokens = 500;
  train::Sampling sampling;
  std::vector<std::string> stop;    // texts behind which generation ends
  bool chat = false;                // the prompt is a turn of a conversation
  std::string system;               // with chat: the instruction before it
  bool special_tokens = false;      // those of the tokenizer stand before the prompt
  std::string part = "validation";  // for other models
  std::string data;                 // a file or folder instead of the data set's
  std::string format = "json";
  int64_t samples = 0;
  std::vector<std::string> given;  // names of the options on the command line
};
// Prints generated text, or the class and its probability for each sample.
void run_predict(const PredictArguments& arguments);

struct GradientsArguments {
  ConfigArguments config;
  std::string weights, output;
  int64_t batch = 0;  // number of the batch, from 0
};
// Writes loss, logits and gradients of one step to a file.
void run_gradients(const GradientsArguments& arguments, Outcome& outcome);

struct PlanArguments {
  ConfigArguments config;
  int world_size = 0;      // 0: as many ranks as [cluster] has devices, or one
  bool passes = false;     // list the passes that compile the step
  std::string dump_graph;  // a folder for the graph after each pass; empty: none
};
// Prints what a step consists of, for one rank or for all ranks of a mesh.
void run_plan(const PlanArguments& arguments);

// Prints the layers of the model with shapes, parameters and FLOPs. Opens no device and no data.
// Equivalent to: Model.summary() of Keras.
void show_model(const ConfigArguments& arguments);
// Loads the configuration, makes its model and prints advice. Throws ConfigurationError if it
// cannot be trained, as far as that is known without data and devices.
void check_config(const ConfigArguments& arguments);

// These functions are the commands of `runtime checkpoint`. `path` names a checkpoint or a run. All
// of them throw DataError.
void checkpoint_info(const std::string& path);    // prints what is in each
void checkpoint_verify(const std::string& path);  // reads every byte, and says which are whole
// Writes the weights with PyTorch's names and layouts.
void checkpoint_export(const std::string& path, const std::string& output);
// Writes a new checkpoint of whole tensors, as one rank saves it.
void checkpoint_reshard(const std::string& path, const std::string& output);

// Makes the folder `output` of a model of Hugging Face's transformers, and the other way round of
// the folder of a run. Both throw DataError and ConfigurationError, and then make nothing.
void import_hf(const std::string& folder, const std::string& output);
void export_hf(const std::string& run, const std::string& output);

// Makes the folder `output` of the tokens of a text, train.bin and validation.bin, and of a
// configuration that trains on them. Throws DataError and ConfigurationError, and then makes
// nothing.
void write_tokens(const ConfigArguments& arguments, const std::string& output);

using Folders = std::vector<std::string>;   // more folders or files with plugins
void list_devices(const Folders& folders);  // prints them, and why one is not usable
void list_plugins(const Folders& folders);  // prints those found and those rejected
// Prints the last lines of both lists.
void print_rejections(const plugins::host::Registry& registry);
// Prints the keys and the devices of one plugin.
void describe_plugin(const Folders& folders, const std::string& name);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_COMMANDS_H_
