// Checks that a thread that waits for a key of a store is woken when it is set, and not before.
#include "runtime/launch/bells.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "runtime/launch/file_store.h"
#include "runtime/launch/memory_store.h"
#include "tests/runtime/launch/store_support.h"

namespace runtime::launch::test {
namespace {

using namespace std::chrono_literals;

TEST(Bells, RingInMemory) {
  MemoryStore store;
  expect_bells(store, store);
}

TEST(Bells, RingThroughAFolder) {
  const TempFolder folder;
  FileStore one(folder.path()), other(folder.path());
  expect_bells(one, other);
}

// A store that nothing is told about.
class SilentStore : public MemoryStore {
 public:
  std::unique_ptr<watch::Bell> bell(const std::string& key) override {
    return asking_bell(*this, key);
  }
};

TEST(Bells, RingWhereAStoreHasToBeAsked) {
  SilentStore store;
  expect_bells(store, store);
}

TEST(Bells, AreQuietWhileNothingHappens) {
  const TempFolder folder;
  FileStore files(folder.path());
  MemoryStore memory;
  SilentStore silent;
  const auto is_quiet = [](Store& store) {
    const auto bell = store.bell("alarm");
    EXPECT_FALSE(bell->rings());
    return !may_ring(*bell, 300ms);
  };
  EXPECT_TRUE(is_quiet(memory));
  EXPECT_TRUE(is_quiet(files)) << "the folder for temporary files is that of a network?";
  EXPECT_FALSE(is_quiet(silent));
}

// The bell leaves a file in the place of its pipe alone, and asks the store instead.
TEST(Bells, RingBesideAFileOfTheirName) {
  const TempFolder folder;
  FileStore store(folder.path());
  store.set("job/alarm/bell", "a value");
  EXPECT_FALSE(may_ring(*store.bell("job/alarm"), 0ms)) << "it would be asked without a pause";
  expect_bells(store, store);
  EXPECT_EQ(store.try_get("job/alarm/bell"), "a value");
}

// Stores remove what is older than a day, but not the pipe of a job that still runs.
TEST(Bells, RingAfterADayToo) {
  const TempFolder folder;
  FileStore store(folder.path());
  const auto bell = store.bell("alarm");
  EXPECT_FALSE(bell->rings());
  store.bell("of a job that is over");
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const timespec old[2] = {{.tv_sec = 1000, .tv_nsec = 0}, {.tv_sec = 1000, .tv_nsec = 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, entry.path().c_str(), old, 0), 0);
  }
  FileStore later(folder.path());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  later.set("alarm", "1");
  EXPECT_TRUE(may_ring(*bell, 0ms));
  EXPECT_TRUE(bell->rings());
}

TEST(Bells, OfAFolderThatIsGoneSaySo) {
  const TempFolder folder;
  FileStore store(folder.path() / "store");
  std::filesystem::remove_all(folder.path() / "store");
  const auto bell = store.bell("alarm");
  EXPECT_THAT(message_of([&] { bell->rings(); }), testing::HasSubstr("the folder is still there"));
}

}  // namespace
}  // namespace runtime::launch::test
