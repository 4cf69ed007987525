// Checks known limits of memory, and refusals with their numbers.
#include "runtime/system/available_memory.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "runtime/error.h"

namespace runtime::system {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(AvailableMemory, IsNotMoreThanTheMachineHas) {
  const uint64_t machine =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_GT(available_memory(), 0u);
  EXPECT_LE(available_memory(), machine);
}

TEST(AvailableMemory, RefusesWhatDoesNotFitWithNumbers) {
  require_memory(1 << 20, "something small", "");
  try {
    require_memory(uint64_t{1} << 60, "the table", "use a smaller one");
    FAIL() << "2^60 bytes were accepted";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the table takes 1099511627776.00 MiB, but "));
    EXPECT_THAT(error.what(), testing::HasSubstr(" of memory are available; use a smaller one"));
  }
}

TEST(AvailableMemory, IsDescribedWithNumbers) {
  char text[200];
  describe_memory(text);
  EXPECT_THAT(text, testing::MatchesRegex("[1-9][0-9]* MiB of address space are in use, the limit "
                                          ".* is .*, and [1-9][0-9]* MiB of the machine's memory "
                                          "are free"));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve terabytes
TEST(AvailableMemory, KnowsTheLimitOfTheAddressSpace) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{512 * kMiB, 512 * kMiB};
    const bool set = setrlimit(RLIMIT_AS, &limit) == 0;
    _exit(set && available_memory() < 512 * kMiB && available_memory() > 300 * kMiB ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace runtime::system
