// The TOML file of a sweep.
#ifndef TOOLS_SWEEP_SWEEP_FILE_H_
#define TOOLS_SWEEP_SWEEP_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/trials/settings.h"

namespace tools::sweep {

// One key that differs from trial to trial, and where its values come from.
struct Parameter {
  enum class Kind { kValues, kUniform, kLogUniform, kInteger, kDevices };
  std::string key;  // "optimizer.lr"
  Kind kind = Kind::kValues;
  std::vector<trials::Json> values = {};  // kValues; kDevices after the devices have been listed
  double low = 0, high = 0;               // the others; both ends are included
};

// Successive halving: all trials train until the first rung, the best ones until the next, and so
// on.
struct Halving {
  std::string unit;            // "steps" or "epochs"
  std::vector<int64_t> rungs;  // rising; one rung without halving
  int64_t factor = 3;          // one of so many goes on
};

// A sweep as its file describes it.
struct Sweep {
  std::string name;                         // the name of the file without .toml
  std::string config;                       // path of the configuration
  std::string folder;                       // of the sweep's files
  std::string monitor = "validation_loss";  // a field of metrics.jsonl
  bool maximize = false;                    // whether a larger value of the monitor is better
  bool take_best = false;            // the value is the best line of a run instead of the last one
  int64_t parallel = 1;              // runs at the same time
  std::vector<std::string> devices;  // "cuda:0": the runs at the same time take them in turn
  double timeout_s = 0;              // of a run; 0: none
  trials::Settings set;              // of every trial
  bool random = false;               // samples instead of the whole grid
  int64_t trials = 0;                // of a random search
  uint64_t seed = 42;
  std::vector<Parameter> parameters;
  Halving halving;  // without rungs: every trial trains to its end
};

// Reads a file. Throws ConfigurationError ("file:line:column: key: what, actual, expected") for
// everything that is wrong with it; the keys and values of the configuration itself are not checked
// here.
Sweep read_sweep(const std::string& path);

}  // namespace tools::sweep

#endif  // TOOLS_SWEEP_SWEEP_FILE_H_
