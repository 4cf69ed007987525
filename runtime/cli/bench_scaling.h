// `runtime bench CONFIG --scaling 1,2,4`.
#ifndef RUNTIME_CLI_BENCH_SCALING_H_
#define RUNTIME_CLI_BENCH_SCALING_H_

#include <vector>

#include "runtime/cli/commands.h"

namespace runtime::cli {

struct ScalingBench {
  ConfigArguments config;
  std::vector<int> ranks;  // 1 is always measured
  int64_t steps = 50;
  int rounds = 1;
  bool weak = false;  // the batch per rank is fixed
  bool json = false;
};

// Runs `bench --json` of this program for each number of ranks in turn, `rounds` times, and prints
// a table of the median runs and whether adding ranks pays.
void run_scaling_bench(const ScalingBench& bench);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_BENCH_SCALING_H_
