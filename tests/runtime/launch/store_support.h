// Code that the tests of the stores and of the rendezvous share.
#ifndef TESTS_RUNTIME_LAUNCH_STORE_SUPPORT_H_
#define TESTS_RUNTIME_LAUNCH_STORE_SUPPORT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/error.h"
#include "runtime/launch/store.h"

namespace runtime::launch::test {

// A temporary folder for one test, which the destructor removes.
class TempFolder {
 public:
  TempFolder() : path_(std::filesystem::temp_directory_path() / "runtime-store-XXXXXX") {
    std::string name = path_.string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
    path_ = name;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The message of the error that `action` must throw.
template <class Kind = CommunicationError, class Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Kind& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

// Runs `body(i)` for all i < count in threads; returns the results, or "error: " and the message.
inline std::vector<std::string> in_threads(int count, const std::function<std::string(int)>& body) {
  std::vector<std::string> results(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        results[static_cast<std::size_t>(i)] = body(i);
      } catch (const std::exception& error) {
        results[static_cast<std::size_t>(i)] = std::string("error: ") + error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

// Whether a descriptor of the bell becomes readable in time.
inline bool may_ring(const watch::Bell& bell, std::chrono::milliseconds at_most) {
  std::vector<pollfd> polled;
  for (const int descriptor : bell.descriptors()) polled.push_back({descriptor, POLLIN, 0});
  return ::poll(polled.data(), polled.size(), static_cast<int>(at_most.count())) > 0;
}

// Checks that bells of `listens` ring once `sets`, another view of the same store, has set the key.
inline void expect_bells(Store& listens, Store& sets) {
  constexpr std::chrono::milliseconds kSoon(20'000);
  const auto first = listens.bell("job/alarm"), second = listens.bell("job/alarm"),
             other = listens.bell("job/other");
  sets.set("job/alarm/0", "the key of another");
  for (const auto* bell : {&first, &second, &other}) EXPECT_FALSE((*bell)->rings());
  sets.set("job/alarm", "3");
  for (const auto* bell : {&first, &second}) {
    while (!(*bell)->rings()) ASSERT_TRUE(may_ring(**bell, kSoon));
    EXPECT_TRUE((*bell)->rings());
  }
  sets.set("job/alarm", "4");
  EXPECT_TRUE(first->rings());
  EXPECT_FALSE(other->rings());
  EXPECT_TRUE(listens.bell("job/alarm")->rings() || may_ring(*listens.bell("job/alarm"), kSoon))
      << "a key that was there before";
  EXPECT_EQ(listens.try_get("job/alarm"), "4");
}

}  // namespace runtime::launch::test

#endif  // TESTS_RUNTIME_LAUNCH_STORE_SUPPORT_H_
