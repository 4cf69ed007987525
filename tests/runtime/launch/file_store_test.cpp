// Checks keys, values, waits and clean-up of the store in a folder.
#include "runtime/launch/file_store.h"

#include <sys/stat.h>

#include <atomic>
#include <fstream>

#include "tests/runtime/launch/store_support.h"

namespace runtime::launch::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

int files_in(const fs::path& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), {}));
}

TEST(FileStore, KeepsWhatAnyOfThemHasSet) {
  const TempFolder folder;
  FileStore one(folder.path()), other(folder.path());
  EXPECT_EQ(other.try_get("run/a"), std::nullopt);
  one.set("run/a", "1");
  EXPECT_EQ(other.try_get("run/a"), "1");
  other.set("run/a", std::string("\0\xff\n", 3));
  EXPECT_EQ(one.try_get("run/a"), std::string("\0\xff\n", 3));
  one.set("empty", "");
  EXPECT_EQ(other.get("empty", 0s), "");
}

TEST(FileStore, KeysThatLookAlikeAreDifferent) {
  const TempFolder folder;
  FileStore store(folder.path());
  const std::vector<std::string> keys = {"a/b", "a_b",   "a_2fb",     "a.b",         "A/B", "..",
                                         "/",   "../..", "a b\n\xff", "/etc/passwd", "",    "."};
  for (const std::string& key : keys) store.set(key, "value of " + key);
  for (const std::string& key : keys) EXPECT_EQ(store.try_get(key), "value of " + key);
  EXPECT_EQ(files_in(folder.path()), static_cast<int>(keys.size()));
}

TEST(FileStore, WaitsForAKey) {
  const TempFolder folder;
  FileStore store(folder.path());
  std::thread other([&] {
    std::this_thread::sleep_for(50ms);
    FileStore(folder.path()).set("late", "here");
  });
  EXPECT_EQ(store.get("late", 60s), "here");
  other.join();
  EXPECT_THAT(message_of<StoreTimeout>([&] { store.get("never", 30ms, 2); }),
              testing::StartsWith("rank 2 does not answer: "));
  EXPECT_THAT(message_of<StoreTimeout>([&] { store.get("never", 30ms); }),
              AllOf(HasSubstr("'never'"), HasSubstr("0.03 s"), HasSubstr(folder.path().string())));
}

TEST(FileStore, ReadersSeeWholeValuesOnly) {
  const TempFolder folder;
  FileStore store(folder.path());
  std::atomic<bool> done = false;
  const std::string old(100'000, 'a'), young(200'000, 'b');
  store.set("key", old);
  std::thread writer([&] {
    for (int i = 0; i < 200; ++i) FileStore(folder.path()).set("key", i % 2 == 0 ? young : old);
    done = true;
  });
  while (!done) {
    const std::string value = store.get("key", 0s);
    ASSERT_TRUE(value == old || value == young) << value.size();
  }
  writer.join();
  EXPECT_EQ(files_in(folder.path()), 1) << "temporary files are left";
}

TEST(FileStore, MakesItsFolderForThisUserAlone) {
  const TempFolder folder;
  const fs::path inner = folder.path() / "a" / "b";
  FileStore(inner).set("key", "value");
  EXPECT_EQ(fs::status(inner).permissions(), fs::perms::owner_all);
}

TEST(FileStore, RemovesItsOwnOldFilesOnly) {
  const TempFolder folder;
  FileStore store(folder.path());
  store.set("old", "x");
  store.set("young", "x");
  const fs::path old_file = [&] {
    for (const auto& entry : fs::directory_iterator(folder.path()))
      if (entry.path().string().ends_with("old")) return entry.path();
    return fs::path();
  }();
  std::ofstream(folder.path() / "mine") << "x";
  for (const fs::path& path : {old_file, folder.path() / "mine"})
    fs::last_write_time(path, fs::file_time_type::clock::now() - 48h);
  FileStore again(folder.path());
  EXPECT_EQ(again.try_get("old"), std::nullopt);
  EXPECT_EQ(again.try_get("young"), "x");
  EXPECT_TRUE(fs::exists(folder.path() / "mine"));
}

TEST(FileStore, SaysWhatIsInTheWay) {
  const TempFolder folder;
  FileStore store(folder.path() / "store");
  store.set("key", "value");
  const fs::path file = fs::directory_iterator(folder.path() / "store")->path();
  fs::resize_file(file, std::uintmax_t{1} << 40);
  EXPECT_THAT(message_of([&] { store.try_get("key"); }), HasSubstr("1099511627776 bytes"));
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_THAT(message_of([&] { store.try_get("key"); }), HasSubstr("is no file"));
  EXPECT_THAT(message_of([&] { store.set("key", "value"); }), HasSubstr("renaming"));
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] { store.try_get("key"); }), HasSubstr("is no file"));
  EXPECT_THAT(message_of([&] { store.set(std::string(300, 'k'), ""); }), HasSubstr("shorten"));
  fs::remove_all(folder.path() / "store");
  EXPECT_THAT(message_of([&] { store.set("key", "value"); }), HasSubstr("still there"));
  EXPECT_THAT(message_of([&] { store.get("key", 60s); }), HasSubstr("still there"));
  std::ofstream(folder.path() / "file") << "x";
  EXPECT_THAT(message_of([&] { FileStore wrong(folder.path() / "file"); }), HasSubstr("making it"));
  EXPECT_THAT(message_of([&] { FileStore wrong(folder.path() / "file" / "inner"); }),
              HasSubstr("can be written"));
}

}  // namespace
}  // namespace runtime::launch::test
