// These functions are shared by `bench` and `bench --inference`.
#ifndef RUNTIME_CLI_BENCH_H_
#define RUNTIME_CLI_BENCH_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/cli/bench_commands.h"
#include "runtime/cli/session.h"

namespace runtime::cli {

// Steps before a measurement, in which caches, pages and clock rates settle.
inline constexpr int kWarmUp = 5;

// Returns the upper median; `values` must not be empty.
double median(std::vector<double> values);

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

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_BENCH_H_
