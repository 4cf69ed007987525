// The rendezvous, with ranks that are threads, each with its own FileStore in one folder.
#include "runtime/launch/rendezvous.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include "plugins/host/error.h"
#include "runtime/launch/bells.h"
#include "runtime/launch/file_store.h"
#include "runtime/launch/key_value.h"
#include "runtime/launch/memory_store.h"
#include "runtime/launch/nonce.h"
#include "tests/runtime/launch/store_support.h"

namespace runtime::launch::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr auto kLong = 60s;  // reached only by a test that fails

struct Process {
  int rank;
  int world_size;
  std::chrono::milliseconds delay = 0ms;
  std::chrono::nanoseconds timeout = kLong;
};

// The results of join() for all processes, or "error: ...".
std::vector<std::string> join_all(const fs::path& folder, const std::vector<Process>& processes) {
  return in_threads(static_cast<int>(processes.size()), [&](int i) {
    const Process& process = processes[static_cast<std::size_t>(i)];
    std::this_thread::sleep_for(process.delay);
    FileStore store(folder);
    return join(store, process.rank, process.world_size, process.timeout);
  });
}

std::vector<Process> ranks(int world_size) {
  std::vector<Process> all;
  for (int rank = 0; rank < world_size; ++rank) all.push_back({rank, world_size});
  return all;
}

// Expects the same prefix for all ranks, which `seen` does not contain yet.
void expect_fresh(const std::vector<std::string>& prefixes, std::set<std::string>& seen) {
  EXPECT_THAT(prefixes, Each(prefixes[0]));
  EXPECT_THAT(prefixes[0], Not(StartsWith("error")));
  EXPECT_TRUE(seen.insert(prefixes[0]).second) << prefixes[0] << " again";
}

TEST(Rendezvous, EveryRunGetsAPrefixOfItsOwn) {
  const TempFolder folder;
  std::set<std::string> seen;
  for (int run = 0; run < 10; ++run)
    expect_fresh(join_all(folder.path(), ranks(2 + run % 4)), seen);
}

TEST(Rendezvous, TellsEveryRankTheHostOfEach) {
  const TempFolder folder;
  const std::vector<std::string> hosts = in_threads(3, [&](int rank) {
    FileStore store(folder.path());
    std::string all;
    for (const std::string& host : exchange_hosts(store, "run", rank, 3, kLong)) all += host + ' ';
    return all;
  });
  char own[256] = "";
  ::gethostname(own, sizeof own - 1);
  const std::string name = std::string(own) + ' ';
  EXPECT_THAT(hosts, Each(name + name + name));
}

TEST(Rendezvous, LeftOversOfEarlierRunsDoNoHarm) {
  const TempFolder folder;
  std::set<std::string> seen;
  expect_fresh(join_all(folder.path(), ranks(3)), seen);
  // The other ranks arrive long before rank 0 announces the new run.
  expect_fresh(join_all(folder.path(), {{0, 3, 100ms}, {1, 3}, {2, 3, 50ms}}), seen);
  // A run in which rank 2 never arrives leaves rank 0's announcement, a registration and a failure.
  const auto failed = join_all(folder.path(), {{0, 3, 0ms, 100ms}, {1, 3}});
  EXPECT_THAT(failed, Each(HasSubstr("rank 2 of 3 has not come within 0.1 s")));
  expect_fresh(join_all(folder.path(), {{0, 3, 100ms}, {1, 3}, {2, 3}}), seen);
}

TEST(Rendezvous, JobsWithDifferentHintsShareAStore) {
  const TempFolder folder;
  const auto prefixes = in_threads(4, [&](int i) {
    FileStore store(folder.path());
    return join(store, i % 2, 2, kLong, i < 2 ? "job a" : "job/b");
  });
  EXPECT_EQ(prefixes[0], prefixes[1]);
  EXPECT_EQ(prefixes[2], prefixes[3]);
  EXPECT_NE(prefixes[0], prefixes[2]);
}

TEST(Rendezvous, NamesTheMissingRanks) {
  const TempFolder folder;
  EXPECT_THAT(join_all(folder.path(), {{0, 4, 0ms, 200ms}, {1, 4}}),
              Each(AllOf(StartsWith("error"), HasSubstr("ranks 2 and 3 of 4 have not come within"),
                         HasSubstr("comm.init_timeout_s"))));
  // The message is the same if the deadline of another rank passes first.
  EXPECT_THAT(join_all(folder.path(), {{0, 4}, {1, 4, 0ms, 300ms}, {3, 4}}),
              Each(HasSubstr("rank 2 of 4 has not come within 0.3 s")));
  EXPECT_THAT(join_all(folder.path(), {{0, 100, 0ms, 100ms}})[0],
              HasSubstr("ranks 1, 2, 3 and 96 others of 100"));
}

TEST(Rendezvous, SaysThatRankZeroHasNotCome) {
  const TempFolder folder, used;
  EXPECT_THAT(join_all(folder.path(), {{1, 2, 0ms, 50ms}})[0],
              HasSubstr("rank 0 of 2 has not come within 0.05 s"));
  std::set<std::string> seen;
  expect_fresh(join_all(used.path(), ranks(2)), seen);
  EXPECT_THAT(join_all(used.path(), {{1, 2, 0ms, 50ms}})[0],
              AllOf(HasSubstr("rank 0 of 2 has not come"), HasSubstr("an earlier run")));
  join_all(used.path(), {{0, 3, 0ms, 10ms}});
  EXPECT_THAT(join_all(used.path(), {{2, 3, 0ms, 50ms}})[0],
              HasSubstr("which ended with: rendezvous in folder"));
}

TEST(Rendezvous, WorldSizesMustAgree) {
  const TempFolder folder;
  EXPECT_THAT(join_all(folder.path(), {{0, 4}, {1, 3}, {3, 4}}),
              Each(AllOf(HasSubstr("says that there are 4 ranks, rank 1"), HasSubstr("says 3;"))));
}

TEST(Rendezvous, OneProcessForEachRank) {
  const TempFolder folder;
  EXPECT_THAT(join_all(folder.path(), {{0, 3}, {1, 3}, {1, 3}}),
              Each(HasSubstr("two processes say that they are rank 1: process ")));
}

// Rank 1 may meet either of the two, or arrive when both are gone.
TEST(Rendezvous, OneRankZero) {
  const TempFolder folder;
  const auto results = join_all(folder.path(), {{0, 3, 50ms}, {0, 3, 150ms}, {1, 3, 0ms, 5s}});
  for (int i : {0, 1})
    EXPECT_THAT(results[i], HasSubstr("two processes say that they are rank 0: process "));
  EXPECT_THAT(results[2], StartsWith("error"));
}

// A store that counts requests, and whose waits have no end but the key.
class CountingStore : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    ++requests;
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::optional<std::string> try_get(const std::string& key) override {
    ++requests;
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<std::string> wait_for(const std::string& key, std::chrono::nanoseconds) override {
    ++requests;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return values_.contains(key); });
    return values_[key];
  }
  std::unique_ptr<watch::Bell> bell(const std::string& key) override {
    return asking_bell(*this, key);
  }
  std::string description() const override { return "a counting store"; }

  std::atomic<int> requests = 0;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

// Where a store tells when a key is set, ranks do not ask again and again.
TEST(Rendezvous, TakesAFewRequestsOfEachRank) {
  for (const int ranks : {2, 16, 64}) {
    CountingStore store;
    const auto prefixes = in_threads(ranks, [&](int r) { return join(store, r, ranks, kLong); });
    EXPECT_THAT(prefixes, Each(AllOf(prefixes[0], StartsWith("run-"))));
    EXPECT_LE(store.requests, 6 * ranks) << ranks;
    store.requests = 0;
    in_threads(ranks, [&](int r) {
      exchange_hosts(store, "run", r, ranks, kLong);
      return "";
    });
    EXPECT_LE(store.requests, 3 * ranks + 1) << ranks;
  }
}

TEST(Rendezvous, NothingToDoForOneRankOrInAFreshStore) {
  const TempFolder folder;
  FileStore store(folder.path());
  EXPECT_EQ(join(store, 0, 1, 0s), "run");
  EXPECT_TRUE(fs::is_empty(folder.path()));
  MemoryStore memory;
  EXPECT_EQ(join(memory, 1, 2, 0s), "run");
}

// Foreign values under our keys are ignored, or are an error before the deadline.
TEST(Rendezvous, GarbageUnderItsKeys) {
  std::mt19937 random(3);
  const std::string nonce(kNonceLength, 'a');
  std::vector<std::string> garbage = {"",
                                      "rt-notice-1",
                                      "rt-notice-1 x 2 p",
                                      "rt-notice-1 " + nonce,
                                      "rt-notice-1 " + nonce + " 99999999999999999999 p",
                                      "rt-notice-1 " + nonce + " 2 p",
                                      "rt-notice-1 ../../etc/passwd 2 p"};
  for (int i = 0; i < 20; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    garbage.push_back(bytes);
  }
  for (const std::string& bytes : garbage) {
    const TempFolder folder;
    std::set<std::string> seen;
    FileStore store(folder.path());
    store.set("current", bytes);
    for (const char* name : {"/joined/1", "/reply/1", "/failed"})
      store.set("run-" + nonce + name, bytes);
    expect_fresh(join_all(folder.path(), {{0, 2, 20ms}, {1, 2}}), seen);
  }
}

TEST(KeyValue, IsTheStoreUnderThePrefix) {
  const auto store = std::make_shared<MemoryStore>();
  plugins::host::HostServices services;
  offer_store(services, store, "run-1");
  services.kv_set("world/0", "address");
  EXPECT_EQ(store->try_get("run-1/world/0"), "address");
  EXPECT_EQ(services.kv_get("world/0", 0s), "address");
  try {
    services.kv_get("world/1", 10ms);
    ADD_FAILURE() << "no error";
  } catch (const plugins::host::Error& error) {
    EXPECT_EQ(error.code(), RT_ERROR_TIMEOUT);
    EXPECT_THAT(error.what(), HasSubstr("run-1/world/1"));
  }
}

TEST(KeyValue, TranslatesTheErrorsOfTheStore) {
  const TempFolder folder;
  const auto store = std::make_shared<FileStore>(folder.path() / "gone");
  plugins::host::HostServices services;
  offer_store(services, store, "run");
  fs::remove(folder.path() / "gone");
  try {
    services.kv_set("world/0", "address");
    ADD_FAILURE() << "no error";
  } catch (const plugins::host::Error& error) {
    EXPECT_EQ(error.code(), RT_ERROR_COMMUNICATION);
  }
}

}  // namespace
}  // namespace runtime::launch::test
