// Folders that are made whole or not at all.
#include "runtime/system/atomic_folder.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "runtime/error.h"
#include "runtime/system/atomic_file.h"

namespace runtime::system {
namespace {

namespace fs = std::filesystem;

class WriteFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "atomic_folder_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    base_ = name;
  }
  void TearDown() override { fs::remove_all(base_); }
  // What lies beside the folder, too.
  std::ptrdiff_t entries() const {
    return std::distance(fs::directory_iterator(base_), fs::directory_iterator());
  }
  std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }
  fs::path base_;
};

void write_one(const fs::path& folder) { write_file((folder / "a").string(), "text"); }

TEST_F(WriteFolder, MakesItWithItsFiles) {
  write_folder((base_ / "made").string(), write_one);
  EXPECT_EQ(fs::file_size(base_ / "made" / "a"), 4u);
  EXPECT_EQ(entries(), 1);
}

TEST_F(WriteFolder, TakesANameThatEndsWithASlash) {
  write_folder((base_ / "made" / "").string(), write_one);
  EXPECT_TRUE(fs::exists(base_ / "made" / "a"));
  EXPECT_EQ(entries(), 1);
}

TEST_F(WriteFolder, TakesAnEmptyFolder) {
  fs::create_directory(base_ / "made");
  write_folder((base_ / "made").string(), write_one);
  EXPECT_TRUE(fs::exists(base_ / "made" / "a"));
}

TEST_F(WriteFolder, RefusesOneThatIsThere) {
  write_folder((base_ / "made").string(), write_one);
  EXPECT_THAT(error_of([&] { write_folder((base_ / "made").string(), write_one); }),
              testing::HasSubstr("is there already"));
}

TEST_F(WriteFolder, MakesNothingAfterAnError) {
  EXPECT_THROW(write_folder((base_ / "made").string(),
                            [](const fs::path& folder) {
                              write_one(folder);
                              throw std::logic_error("of the writing");
                            }),
               std::logic_error);
  EXPECT_EQ(entries(), 0);
}

TEST_F(WriteFolder, SaysWhyItCannotBeMade) {
  write_file((base_ / "file").string(), "");
  EXPECT_THAT(error_of([&] { write_folder((base_ / "file" / "made").string(), write_one); }),
              testing::HasSubstr("cannot be made"));
}

}  // namespace
}  // namespace runtime::system
