// Runs ranges of seeds in child processes, shrinks failures and keeps the results.
#ifndef TESTS_DIFFERENTIAL_OPERATIONS_RUN_H_
#define TESTS_DIFFERENTIAL_OPERATIONS_RUN_H_

#include <chrono>
#include <filesystem>
#include <string>

#include "tests/differential/operations/check.h"
#include "tests/differential/operations/draw.h"
#include "tests/differential/operations/report.h"
#include "tests/differential/operations/worker.h"

namespace differential {

struct RunOptions {
  DeviceChoice device;
  std::string isa = "native";  // "native", "avx2", "sse41"
  DrawOptions draw;
  uint64_t first_seed = 1, last_seed = 1;
  uint64_t cases = 100;            // per seed
  std::chrono::seconds limit{60};  // for one case
  bool shrinks = true;
  std::filesystem::path results;  // empty: results are not kept
};

// Checks recipes in a child process, so that a case which kills the process is an outcome like any
// other.
class Laboratory {
 public:
  explicit Laboratory(const RunOptions& options);
  Outcome check(const Recipe& recipe);

 private:
  Worker worker_;
};

// Prints the outcome of one recipe; returns true if nothing was found.
bool replay(const RunOptions& options, const Recipe& recipe);

// Runs the seeds that the results file does not have yet, prints failures as they are found and a
// summary of these seeds at the end. Returns true if nothing was found. Throws std::runtime_error
// if the device cannot be opened or results cannot be written.
bool run_seeds(const RunOptions& options);

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_RUN_H_
