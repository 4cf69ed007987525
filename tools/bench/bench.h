// The forms of `runtime bench`: their arguments, their functions, and what they share.
#ifndef TOOLS_BENCH_BENCH_H_
#define TOOLS_BENCH_BENCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/cli/arguments.h"
#include "runtime/cli/say.h"
#include "runtime/session/session.h"

namespace runtime::bench {

using cli::ConfigArguments;
using cli::Outcome;
using cli::say;
using session::Session;

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

// Steps before a measurement, in which caches, pages and clock rates settle.
inline constexpr int kWarmUp = 5;

// Returns the largest resident set of this process so far, in bytes.
uint64_t peak_memory_bytes();

// Returns the next batch, which is valid until the following call.
using NextBatch = std::function<const data::Batch&()>;

// Prints the median time of each operation of a program over `steps` steps after a warm-up. All
// ranks run the steps, and rank 0 prints.
void print_layers(Session& s, train::StepProgram& step, int64_t steps, const NextBatch& next);

// Prints time and rate of the forward pass as evaluate and predict run it, from features to outputs
// in host memory, on one rank. Equivalent to: a module in eval mode under torch.inference_mode().
void run_inference_bench(const BenchArguments& arguments, Outcome& outcome);

}  // namespace runtime::bench

#endif  // TOOLS_BENCH_BENCH_H_
