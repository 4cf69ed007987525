// Checks the limit of open files, and the refusal of too many.
#include "runtime/system/descriptors.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "runtime/error.h"

namespace runtime::system {
namespace {

// Runs `check` in a child process with these limits for open files, and returns what it answers.
bool with_limits(rlim_t soft, rlim_t hard, const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{soft, hard};
    _exit(setrlimit(RLIMIT_NOFILE, &limit) == 0 && check() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0;
}

TEST(Descriptors, TheSoftLimitBecomesTheHardOne) {
  EXPECT_TRUE(with_limits(24, 64, [] {
    raise_descriptor_limit();
    rlimit limit = {};
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 64;
  }));
}

TEST(Descriptors, TooFewAreRefusedWithTheNumberNeeded) {
  EXPECT_TRUE(with_limits(64, 64, [] {
    require_descriptors(20, "something small");
    try {
      require_descriptors(100, "the job");
    } catch (const CommunicationError& error) {
      const std::string text = error.what();
      return text.find("the job needs 100 open files") != text.npos &&
             text.find("the limit is 64") != text.npos && text.find("ulimit -n 1") != text.npos;
    }
    return false;
  }));
}

}  // namespace
}  // namespace runtime::system
