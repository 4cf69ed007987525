// Training with several ranks in a folder of its own, to which a test does what it should survive.
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

// At its end no process of it may be left, nor a rendezvous folder of a launcher.
class JobTest : public testing::Test {
 protected:
  JobTest();
  void TearDown() override;

  // `runtime train` of a model that takes some microseconds a step, with deadlines of 2 s for a
  // collective and 5 s for the rendezvous; `settings`: "key=value".
  // `before`: see RuntimeProcess.
  using Before = std::function<void()>;
  Process train(const Words& arguments, const Words& settings = {}, Variables variables = {},
                const Before& before = nullptr);
  // One rank for the backend "".
  Process ranks(const std::string& backend, int count, Words settings = {},
                const Before& before = nullptr);
  // One rank that nobody has started as such, in the folder "meeting" unless `settings` says more.
  Process rank(int rank, int world_size, const Words& settings = {}, const Words& arguments = {});
  // The process that is this rank, as soon as there is one; 0 if none comes.
  pid_t pid_of(int rank, std::chrono::milliseconds limit = std::chrono::seconds(10)) const;
  // A failure if the rank is not there: kill(0, ...) would stop the tests themselves.
  void signal_rank(int rank, int signal) const;
  std::vector<pid_t> processes() const;  // all that a test has started and that run
  std::string run_file(const std::string& name) const;
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

  // Steps without an end.
  static inline const std::string kEndless = "training.epochs=10000000";

  test::TemporaryFolder folder_;
  std::string job_;
};

}  // namespace runtime::faults

#endif  // TESTS_END_TO_END_FAULTS_JOB_H_
