// One recipe on one device: every candidate of every prefix of its post-operations, every in-place
// pair, on one thread and on as many as the recipe says, twice with different bytes in fresh
// memory.
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

// Something that a device did wrong with a recipe.
struct Finding {
  std::string kind;            // "wrong": numbers; "broken": a promise of the contract; "refused":
                               // what query offered or the contract demands; "crashed"
  std::string implementation;  // of the candidate; empty before there is a plan
  std::string detail;
};

struct Outcome {
  std::string status;  // "passed", "found", "refused" or "invalid" (no operation has these numbers)
  std::string reason;  // of a refusal
  int64_t candidates = 0;  // how many ways of doing it ran
  std::set<std::string> implementations;
  std::vector<Finding> findings;
};

struct DeviceChoice {
  std::string plugin = "cpu";
  int32_t index = 0;
  std::vector<std::filesystem::path> folders;  // where plugins are looked for
  std::map<std::string, std::string> options;  // [device.<plugin>]
};

// "" if the plugin is not found in one of the folders; throws plugins::host::Error if it does not
// load.
std::shared_ptr<plugins::host::Plugin> load_plugin(
    const std::string& name, const std::vector<std::filesystem::path>& folders);

class Checker {
 public:
  // Throws std::runtime_error or plugins::host::Error if there is no such device.
  explicit Checker(const DeviceChoice& choice);

  // Never throws for what the device does; std::invalid_argument for a recipe that no family has.
  Outcome check(const Recipe& recipe);

 private:
  plugins::host::Device& device(int32_t threads);

  DeviceChoice choice_;
  std::shared_ptr<plugins::host::Plugin> plugin_;
  std::shared_ptr<plugins::host::Device> reference_;
  std::map<int32_t, std::shared_ptr<plugins::host::Device>> devices_;  // by threads
};

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_CHECK_H_
