// Runs the `runtime` program in a folder of the test, with a job that takes almost no time.
#ifndef TESTS_RUNTIME_CLI_PROGRAM_H_
#define TESTS_RUNTIME_CLI_PROGRAM_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/process.h"

namespace runtime::cli {

inline const std::string kTinyJob = R"(
[model]
input = [6]
layers = [ { type = "linear", features = 5, activation = "relu" }, { type = "linear", features = 3 } ]
[dataset]
name = "synthetic"
samples = 60
classes = 3
validation_split = 0.2
[training]
global_batch_size = 8
epochs = 2
[device]
backend = "reference"
)";

class ProgramTest : public testing::Test {
 protected:
  test::ProcessResult run(const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& environment = {}) {
    return test::run_runtime(folder_.path(), arguments, environment);
  }
  // Expects success; returns the standard output.
  std::string output(const std::vector<std::string>& arguments,
                     const std::map<std::string, std::string>& environment = {}) {
    const test::ProcessResult r = run(arguments, environment);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return r.out;
  }
  // The names in the folder of the test, without those that any run may create.
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& e : std::filesystem::directory_iterator(folder_.path()))
      names.insert(e.path().filename().string());
    return names;
  }

  test::TemporaryFolder folder_;
  const std::string job_ = folder_.write("tiny.toml", kTinyJob);
};

}  // namespace runtime::cli

#endif  // TESTS_RUNTIME_CLI_PROGRAM_H_
