// The commands `bench` and `bench comm`.
#ifndef RUNTIME_CLI_BENCH_COMMANDS_H_
#define RUNTIME_CLI_BENCH_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cli/commands.h"

namespace CLI {
class App;
}

namespace runtime::cli {

struct BenchArguments {
  ConfigArguments config;
  int64_t steps = 50;
  int rounds = 1;
  bool json = false, layers = false, data = false;
  bool inference = false;    // only the forward pass
  int64_t batch = 0;         // rows of a batch with `inference`; 0: those of the configuration
  bool weak = false;         // the batch of each rank is fixed
  std::vector<int> scaling;  // world sizes; 1 is always measured
};
// Prints the time and the memory of a step.
void run_bench(const BenchArguments& arguments, Outcome& outcome);

// Prints how fast one rank's batches of training are made, `steps` of them, without a device.
void run_data_bench(const BenchArguments& arguments);

// Runs `bench --json` of this program for each world size in turn, `rounds` times. Prints a table
// of the median runs, and whether adding ranks pays.
void run_scaling_bench(const BenchArguments& arguments);

struct CommArguments {
  ConfigArguments config;
  std::vector<std::string> collectives;
  uint64_t min_bytes = 4 << 10, max_bytes = 64 << 20;
  bool json = false;
};
// Returns the names of the collectives that `bench comm` measures.
std::vector<std::string> comm_collectives();
// Prints time and bandwidth of each collective and size.
void run_bench_comm(const CommArguments& arguments, Outcome& outcome);

// Adds `bench`, and `comm` below it, to the program's commands.
void add_bench(CLI::App& app, Outcome& outcome);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_BENCH_COMMANDS_H_
