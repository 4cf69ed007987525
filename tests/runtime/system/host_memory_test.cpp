// Processes and threads that share memory by a key, and those that cannot.
#include "runtime/system/host_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "runtime/error.h"

namespace runtime::system {
namespace {

// A key that no other test and no other run of this one uses.
std::string key_of_test() {
  return std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + " " +
         std::to_string(::getpid()) + " " +
         std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
}

std::vector<int32_t> many_numbers() {
  std::vector<int32_t> numbers(100003);
  std::iota(numbers.begin(), numbers.end(), 7);
  return numbers;
}

void fill_many(Pieces& pieces) {
  pieces.begin(3);
  pieces.add("ab", 2);
  pieces.add("c", 1);
  pieces.begin(0);
  const std::vector<int32_t> numbers = many_numbers();
  pieces.begin(numbers.size() * sizeof(int32_t));
  for (const int32_t number : numbers) pieces.add(&number, sizeof(number));
}

bool has_many(const HostMemory& memory) {
  if (memory.count() != 3) return false;
  const auto text = memory.numbers<char>(0);
  const auto numbers = memory.numbers<int32_t>(2);
  return std::string(text.begin(), text.end()) == "abc" && memory.piece(1).empty() &&
         std::vector<int32_t>(numbers.begin(), numbers.end()) == many_numbers() &&
         reinterpret_cast<uintptr_t>(numbers.data()) % alignof(int64_t) == 0;
}

// Runs `body` in a process of its own, which ends with what it returns.
template <class Body>
pid_t process(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(code);
  }
  return child;
}

int exit_code_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr int kFilled = 10, kMapped = 11, kWrong = 12;

// Shares the numbers of fill_many and says what this process did.
int take_part(const std::string& key, std::chrono::milliseconds takes = {}) {
  bool filled = false;
  const SharedMemory shared = share_memory(key, [&](Pieces& pieces) {
    filled = true;
    std::this_thread::sleep_for(takes);
    fill_many(pieces);
  });
  if (!shared.why_not.empty() || !has_many(*shared.memory)) return kWrong;
  return filled ? kFilled : kMapped;
}

TEST(FillMemory, HoldsThePieces) { EXPECT_TRUE(has_many(*fill_memory(fill_many))); }

TEST(FillMemory, MayHaveNoPiece) {
  EXPECT_EQ(fill_memory([](Pieces&) {})->count(), 0u);
}

TEST(ShareMemory, OneOfManyProcessesFillsIt) {
  const std::string key = key_of_test();
  constexpr int kProcesses = 16;
  // All of them keep the memory until the last one has it, so that nobody fills it again.
  int all_have_it[2];
  ASSERT_EQ(::pipe(all_have_it), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(process([&] {
      bool filled = false;
      const SharedMemory shared = share_memory(key, [&](Pieces& pieces) {
        filled = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        fill_many(pieces);
      });
      ::close(all_have_it[1]);
      char end = 0;
      [[maybe_unused]] const ssize_t ended = ::read(all_have_it[0], &end, 1);
      if (!shared.why_not.empty() || !has_many(*shared.memory)) return kWrong;
      return filled ? kFilled : kMapped;
    }));
  }
  ::close(all_have_it[0]);
  ::close(all_have_it[1]);
  int filled = 0, mapped = 0;
  for (const pid_t child : children) {
    const int code = exit_code_of(child);
    filled += code == kFilled ? 1 : 0;
    mapped += code == kMapped ? 1 : 0;
  }
  EXPECT_EQ(filled, 1);
  EXPECT_EQ(mapped, kProcesses - 1);
}

TEST(ShareMemory, OutlivesTheProcessThatFilledIt) {
  const std::string key = key_of_test();
  int ready[2], go_on[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(go_on), 0);
  const pid_t child = process([&] {
    const SharedMemory shared = share_memory(key, fill_many);
    if (::write(ready[1], "r", 1) != 1) return kWrong;
    char end = 0;
    return ::read(go_on[0], &end, 1) == 1 ? kFilled : kWrong;
  });
  char sign = 0;
  ASSERT_EQ(::read(ready[0], &sign, 1), 1);
  bool filled = false;
  const SharedMemory mine = share_memory(key, [&](Pieces&) { filled = true; });
  ASSERT_EQ(::write(go_on[1], "g", 1), 1);
  EXPECT_EQ(exit_code_of(child), kFilled);
  EXPECT_FALSE(filled);
  EXPECT_EQ(mine.why_not, "");
  EXPECT_TRUE(has_many(*mine.memory));
  // Nobody offers it any more.
  EXPECT_EQ(take_part(key), kFilled);
  for (const int end : {ready[0], ready[1], go_on[0], go_on[1]}) ::close(end);
}

TEST(ShareMemory, AnotherKeyIsOtherMemory) {
  const std::string key = key_of_test();
  const SharedMemory one = share_memory(key + "1", [](Pieces& pieces) {
    pieces.begin(1);
    pieces.add("1", 1);
  });
  const SharedMemory two = share_memory(key + "2", [](Pieces& pieces) {
    pieces.begin(1);
    pieces.add("2", 1);
  });
  EXPECT_EQ(one.memory->numbers<char>(0)[0], '1');
  EXPECT_EQ(two.memory->numbers<char>(0)[0], '2');
}

TEST(ShareMemory, ThreadsShareItToo) {
  const std::string key = key_of_test();
  std::atomic<int> fills = 0, good = 0;
  std::vector<SharedMemory> kept(8);
  std::vector<std::thread> threads;
  for (SharedMemory& mine : kept) {
    threads.emplace_back([&] {
      mine = share_memory(key, [&](Pieces& pieces) {
        ++fills;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        fill_many(pieces);
      });
      good += mine.why_not.empty() && has_many(*mine.memory) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fills, 1);
  EXPECT_EQ(good, 8);
}

TEST(ShareMemory, WhoeverWaitsGetsTheSameError) {
  const std::string key = key_of_test();
  const auto take = [&] {
    bool filled = false;
    try {
      share_memory(key, [&](Pieces& pieces) {
        filled = true;
        pieces.begin(1);
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        throw DataError("a.csv: line 3");
      });
      return kWrong;
    } catch (const DataError& error) {
      if (error.what() != std::string("a.csv: line 3")) return kWrong;
      return filled ? kFilled : kMapped;
    }
  };
  const pid_t first = process(take), second = process(take);
  EXPECT_EQ(exit_code_of(first) + exit_code_of(second), kFilled + kMapped);
}

TEST(ShareMemory, TheNextOneFillsItAfterAnotherError) {
  const std::string key = key_of_test();
  EXPECT_THROW(share_memory(key, [](Pieces&) { throw std::logic_error("of the filling"); }),
               std::logic_error);
  EXPECT_EQ(take_part(key), kFilled);
}

TEST(ShareMemory, TheNextOneFillsItAfterADeath) {
  const std::string key = key_of_test();
  const pid_t victim = process([&] {
    share_memory(key, [](Pieces&) { std::this_thread::sleep_for(std::chrono::minutes(1)); });
    return kWrong;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const pid_t next = process([&] { return take_part(key); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ::kill(victim, SIGKILL);
  exit_code_of(victim);
  EXPECT_EQ(exit_code_of(next), kFilled);
}

TEST(ShareMemory, DoesNotWaitForOneThatIsStopped) {
  const std::string key = key_of_test();
  const pid_t stopped = process([&] {
    share_memory(key, [](Pieces&) { std::this_thread::sleep_for(std::chrono::minutes(1)); });
    return kWrong;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ::kill(stopped, SIGSTOP);
  const SharedMemory mine = share_memory(key, fill_many, 1.5);
  EXPECT_EQ(mine.why_not, "the process that reads them does not answer");
  EXPECT_TRUE(has_many(*mine.memory));
  ::kill(stopped, SIGKILL);
  exit_code_of(stopped);
}

TEST(ShareMemory, IsOfOneProcessWhereFilesAreLimited) {
  const std::string key = key_of_test();
  const pid_t child = process([&] {
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const SharedMemory mine = share_memory(key, fill_many);
    return mine.why_not == "the size of files is limited (ulimit -f)" && has_many(*mine.memory)
               ? kFilled
               : kWrong;
  });
  EXPECT_EQ(exit_code_of(child), kFilled);
}

}  // namespace
}  // namespace runtime::system
