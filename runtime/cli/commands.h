// The commands of the `runtime` program: what each is told, and what runs it. command_line.cpp
// reads the words; nothing else includes the parser, whose header takes longer to compile than a
// command.
#ifndef RUNTIME_CLI_COMMANDS_H_
#define RUNTIME_CLI_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/host/registry.h"
#include "runtime/config/config.h"
#include "runtime/train/generate.h"

namespace CLI {
class App;
}

namespace runtime::cli {

// What a command leaves behind for main(), and the words of the command line, without the program.
struct Outcome {
  int exit_code = 0;
  std::vector<std::string> arguments;
};

// Runs the command that the words name. Returns the exit code; prints help and errors of the words.
int run_command_line(int argc, char** argv);

// CONFIG and --set, which most commands take.
struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides;
  int ranks = 0;          // --nproc; 0: not given
  int max_restarts = -1;  // --max-restarts; -1: not given

  void add_to(CLI::App& app);
  void add_ranks_to(CLI::App& app);
  std::vector<config::Override> all_overrides() const;
  config::Config load() const;
};

// <folder of the executable>/../share/runtime/configs/presets
std::string preset_folder();

// Messages of plugins go to the standard error output, warnings and errors only.
plugins::host::HostServices host_services();

struct TrainArguments {
  ConfigArguments config;
  std::string weights;
  int64_t max_steps = 0;
};
void run_train(const TrainArguments& arguments, Outcome& outcome);

struct EvaluateArguments {
  ConfigArguments config;
  std::string weights;
  std::string part = "validation";
};
void run_evaluate(const EvaluateArguments& arguments, Outcome& outcome);

struct PredictArguments {
  ConfigArguments config;
  std::string weights;
  std::string prompt = "\n";  // language models
  int64_t tokens = 500;
  train::Sampling sampling;
  std::string part = "validation";  // other models
  std::string format = "json";
  int64_t samples = 0;
  std::vector<std::string> given;  // options on the command line
};
void run_predict(const PredictArguments& arguments);

struct GradientsArguments {
  ConfigArguments config;
  std::string weights, output;
  int64_t batch = 0;
};
void run_gradients(const GradientsArguments& arguments, Outcome& outcome);

inline constexpr int64_t kVerifySteps = 3;
struct VerifyArguments {
  ConfigArguments config;
  std::string against;                         // a backend, backend:index, or a file
  std::string record;                          // the file to write
  std::string reduce;                          // the folder to write a case to
  std::string case_folder, device, candidate;  // a case to run again, and in what
  int64_t steps = 0;                           // 0: kVerifySteps, or all of the file
  double rtol = 0;                             // 0: by the types of the step
  double max_gib = 8;
  bool isolate = false, json = false;
};
// Throws NumericError at the first difference, and for a case that is still wrong.
void run_verify(const VerifyArguments& arguments, Outcome& outcome);

struct PlanArguments {
  ConfigArguments config;
  int world_size = 1;
  double latency_us = 0, bandwidth_gbps = 0;  // 0: the default
};
void run_plan(const PlanArguments& arguments);

struct BenchArguments {
  ConfigArguments config;
  int64_t steps = 50;
  int rounds = 1;
  bool json = false, layers = false;
  bool weak = false;         // the batch per rank is fixed
  std::vector<int> scaling;  // numbers of ranks; 1 is always measured
};
void run_bench(const BenchArguments& arguments, Outcome& outcome);

// Runs `bench --json` of this program for each number of ranks in turn, `rounds` times, and prints
// a table of the median runs and whether adding ranks pays.
void run_scaling_bench(const BenchArguments& arguments);

struct CommArguments {
  ConfigArguments config;
  std::vector<std::string> collectives;
  uint64_t min_bytes = 4 << 10, max_bytes = 64 << 20;
  bool json = false;
};
std::vector<std::string> comm_collectives();
void run_bench_comm(const CommArguments& arguments, Outcome& outcome);

using Folders = std::vector<std::string>;  // more of them, or files, to look for plugins in
void list_devices(const Folders& folders);
void list_plugins(const Folders& folders);
// The last lines of both lists.
void print_rejections(const plugins::host::Registry& registry);
void describe_plugin(const Folders& folders, const std::string& name);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_COMMANDS_H_
