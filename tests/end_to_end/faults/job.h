// A training job with several ranks in a folder of its own, into which a test injects a fault.
#ifndef TESTS_END_TO_END_FAULTS_JOB_H_
#define TESTS_END_TO_END_FAULTS_JOB_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/process.h"

namespace runtime::faults {

using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;
using test::ProcessResult;
using test::RuntimeProcess;
using Process = std::unique_ptr<RuntimeProcess>;

double seconds_since(Clock::time_point begin);
bool has_plugin(const std::string& backend);

// TearDown() fails the test if a process of the job or a rendezvous folder of a launcher is left.
class JobTest : public testing::Test {
 protected:
  JobTest();
  void TearDown() override;

  // Starts `runtime train` on a model whose steps take some microseconds, with deadlines of 2 s for
  // a collective and 5 s for the rendezvous. `settings` are "key=value"; `before` is passed to
  // RuntimeProcess.
  using Before = std::function<void()>;
  Process train(const Words& arguments, const Words& settings = {}, Variables variables = {},
                const Before& before = nullptr);
  // Starts `count` ranks; the backend "" means one rank without a launcher.
  Process ranks(const std::string& backend, int count, Words settings = {},
                const Before& before = nullptr);
  // Starts one rank without a launcher. The ranks meet in the folder "meeting" unless `settings`
  // says otherwise.
  Process rank(int rank, int world_size, const Words& settings = {}, const Words& arguments = {});
  // Waits until this rank's process exists; returns 0 if it does not within `limit`.
  pid_t pid_of(int rank, std::chrono::milliseconds limit = std::chrono::seconds(10)) const;
  // Fails the test if the rank does not exist: kill(0, ...) would stop the tests themselves.
  void signal_rank(int rank, int signal) const;
  std::vector<pid_t> processes() const;  // all running processes that the test has started
  std::string run_file(const std::string& name) const;
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

  // Makes the training endless.
  static inline const std::string kEndless = "training.epochs=10000000";

  test::TemporaryFolder folder_;
  std::string job_;
};

}  // namespace runtime::faults

#endif  // TESTS_END_TO_END_FAULTS_JOB_H_
