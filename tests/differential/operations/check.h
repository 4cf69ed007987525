// Checks one recipe on one device: every candidate for every prefix of its post-operations, every
// in-place pair, on one thread and on the number of threads that the recipe names, each twice with
// different bytes in fresh memory.
#ifndef TESTS_DIFFERENTIAL_OPERATIONS_CHECK_H_
#define TESTS_DIFFERENTIAL_OPERATIONS_CHECK_H_

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plugins/conformance/variants.h"
#include "plugins/host/device.h"
#include "tests/differential/operations/oracle.h"

namespace differential {

// A fault of a device that a recipe has found.
struct Finding {
  std::string kind;  // "wrong": numbers; "broken": a promise of the contract; "refused": something
                     // that query offered or the contract demands; "crashed"
  std::string implementation;  // of the candidate; empty before there is a plan
  std::string detail;
};

struct Outcome {
  std::string status;      // "passed", "found", "refused" or "invalid" (no valid operation)
  std::string reason;      // the reason of a refusal
  int64_t candidates = 0;  // number of ways in which the recipe was run
  std::set<std::string> implementations;
  std::vector<Finding> findings;
};

struct DeviceChoice {
  std::string plugin = "cpu";
  int32_t index = 0;
  std::vector<std::filesystem::path> folders;  // searched for plugins
  std::map<std::string, std::string> options;  // of the section [device.<plugin>]
};

// Loads the plugin `name` from the first of `folders` that has it. Throws std::runtime_error if
// none has it, and plugins::host::Error if it does not load.
std::shared_ptr<plugins::host::Plugin> load_plugin(
    const std::string& name, const std::vector<std::filesystem::path>& folders);

class Checker {
 public:
  // Throws std::runtime_error or plugins::host::Error if there is no such device.
  explicit Checker(const DeviceChoice& choice);

  // Never throws for a fault of the device. Throws std::invalid_argument if no family has the
  // recipe's operation or parameters.
  Outcome check(const Recipe& recipe);

 private:
  plugins::host::Device& device(int32_t threads);

  DeviceChoice choice_;
  std::shared_ptr<plugins::host::Plugin> plugin_;
  std::shared_ptr<plugins::host::Device> reference_;
  std::map<int32_t, std::shared_ptr<plugins::host::Device>> devices_;  // by number of threads
};

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_CHECK_H_
