// Checks that files are replaced as a whole, whatever the path is.
#include "runtime/system/atomic_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>

#include "runtime/error.h"

namespace runtime::system {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class AtomicFiles : public testing::Test {
 public:
  ~AtomicFiles() override { fs::remove_all(folder_); }

 protected:
  AtomicFiles() {
    std::string name = (fs::temp_directory_path() / "runtime-files-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string content(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
  static std::string message_of(const std::string& path) {
    try {
      write_file(path, "new");
    } catch (const DataError& error) {
      return error.what();
    }
    return "written";
  }

  fs::path folder_;
};

TEST_F(AtomicFiles, ReplacesARegularFileAsAWhole) {
  write_file(path("a"), "old");
  {
    AtomicFile file(path("a"));
    file.write("new");
    EXPECT_EQ(content("a"), "old");
  }
  EXPECT_EQ(content("a"), "old") << "without commit() nothing changes";
  EXPECT_EQ(files(), 1u) << "the temporary file is left over";
  write_file(path("a"), "new");
  EXPECT_EQ(content("a"), "new");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFiles, TheAccessBitsFollowTheUmask) {
  const mode_t before = umask(027);
  write_file(path("a"), "text");
  umask(before);
  EXPECT_EQ(fs::status(path("a")).permissions(), static_cast<fs::perms>(0640));
}

TEST_F(AtomicFiles, ANameOfTheGreatestLength) {
  const std::string name(255, 'n');
  write_file(path(name), "text");
  EXPECT_EQ(content(name), "text");
}

TEST_F(AtomicFiles, ASymbolicLinkStaysAndItsTargetIsReplaced) {
  fs::create_directory(path("elsewhere"));
  write_file(path("elsewhere/target"), "old");
  fs::create_symlink("elsewhere/target", path("link"));
  fs::create_symlink("link", path("link of link"));
  write_file(path("link of link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_TRUE(fs::is_symlink(path("link of link")));
  EXPECT_EQ(content("elsewhere/target"), "new");
  EXPECT_FALSE(fs::is_symlink(path("elsewhere/target")));
}

TEST_F(AtomicFiles, ALinkToNothingYetMakesItsTarget) {
  fs::create_symlink("target", path("link"));
  write_file(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(content("target"), "new");
}

TEST_F(AtomicFiles, ACircleOfLinksIsRefused) {
  fs::create_symlink("b", path("a"));
  fs::create_symlink("a", path("b"));
  EXPECT_THAT(message_of(path("a")), HasSubstr("circle"));
  EXPECT_EQ(files(), 2u);
}

TEST_F(AtomicFiles, AFolderIsRefused) {
  fs::create_directory(path("folder"));
  for (const std::string& name : {path("folder"), path("folder/"), path("folder/.")})
    EXPECT_THAT(message_of(name), HasSubstr("it is a folder")) << name;
  EXPECT_THAT(message_of(path("absent/a")), HasSubstr("create the folder first"));
}

TEST_F(AtomicFiles, APipeIsWrittenThrough) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  auto reader = std::async(std::launch::async, [&] { return content("pipe"); });
  write_file(path("pipe"), "through");
  EXPECT_EQ(reader.get(), "through");
  EXPECT_TRUE(fs::is_fifo(path("pipe"))) << "it was replaced";
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFiles, ADeviceIsWrittenThrough) {
  if (mknod(path("null").c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0 ||
      mknod(path("full").c_str(), S_IFCHR | 0600, makedev(1, 7)) != 0 ||
      access(path("null").c_str(), W_OK) != 0 || !std::ofstream(path("null")))
    GTEST_SKIP() << "device nodes cannot be made or opened here";
  write_file(path("null"), "gone");
  EXPECT_THAT(message_of(path("full")), HasSubstr("make room"));
  for (const char* name : {"null", "full"})
    EXPECT_TRUE(fs::is_character_file(path(name))) << name << " was replaced";
  EXPECT_EQ(files(), 2u);
}

TEST_F(AtomicFiles, WhatAProcessHasOpenIsWrittenThrough) {
  const int file = open(path("open").c_str(), O_RDWR | O_CREAT, 0600);
  fs::create_symlink("/proc/self/fd/" + std::to_string(file), path("link"));
  write_file(path("link"), "through");
  char text[8] = {};
  EXPECT_EQ(pread(file, text, 7, 0), 7);
  EXPECT_STREQ(text, "through");
  close(file);
}

// Like `ulimit -f`, with the signal ignored, as the program does.
class LimitedFiles : public AtomicFiles, public testing::WithParamInterface<AtomicFile::Size> {};

INSTANTIATE_TEST_SUITE_P(Sizes, LimitedFiles,
                         testing::Values(AtomicFile::Size::kOrdinary, AtomicFile::Size::kLarge));

TEST_P(LimitedFiles, ALimitForTheSizeIsSaidAndNothingIsLeft) {
  const AtomicFile::Size size = GetParam();
  write_file(path("a"), "old");
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      AtomicFile file(path("a"), size);
      file.write(std::string(10000, 'x'));
      file.commit();
      _exit(1);
    } catch (const DataError& error) {
      _exit(std::string(error.what()).find("ulimit -f") == std::string::npos ? 2 : 0);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(content("a"), "old");
  EXPECT_EQ(files(), 1u);
}

std::string pattern(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 4096);
  return text;
}

// Writes a large file in pieces, and after `small` bytes; `memory` begins at a page.
void write_large(const std::string& path, const char* memory, size_t size, size_t piece,
                 size_t small) {
  AtomicFile file(path, AtomicFile::Size::kLarge);
  file.write(memory, std::min(size, small));
  for (size_t at = small; at < size; at += piece)
    file.write(memory + at, std::min(piece, size - at));
  file.commit();
}

// The sizes are those at which pages and stages end. Pieces lie at pages of memory, or do not, and
// become pages of the file, or do not.
TEST_F(AtomicFiles, ALargeFileHasTheSameContent) {
  constexpr size_t kStage = size_t{4} << 20, kPage = 4096;
  const std::unique_ptr<char, void (*)(void*)> memory(
      static_cast<char*>(std::aligned_alloc(kPage, 4 * kStage)), std::free);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, kStage,
                            kStage + 1, 2 * kStage + 4096, 3 * kStage - 777}) {
    for (const size_t piece : {size_t{1000}, size_t{1} << 20, size + 1}) {
      for (const size_t small : {size_t{0}, kPage}) {
        const std::string text = pattern(size);
        std::copy(text.begin(), text.end(), memory.get());
        write_large(path("large"), memory.get(), size, piece, small);
        ASSERT_TRUE(content("large") == text)
            << size << " bytes in pieces of " << piece << " behind " << small;
      }
    }
  }
  // A page of the file may also come from two places.
  const std::string text = pattern(kPage + 10) + pattern(kStage);
  std::copy(text.begin() + kPage + 10, text.end(), memory.get());
  AtomicFile file(path("large"), AtomicFile::Size::kLarge);
  file.write(text.data(), kPage + 10);
  file.write(memory.get(), kStage);
  file.commit();
  EXPECT_TRUE(content("large") == text);
  EXPECT_EQ(files(), 1u);
}

// The memory file system of some kernels refuses to bypass the page cache.
TEST_F(AtomicFiles, ALargeFileInMemoryHasTheSameContent) {
  std::string name = "/dev/shm/runtime-files-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) GTEST_SKIP() << "/dev/shm cannot be written";
  const std::string text = pattern((size_t{5} << 20) + 3);
  {
    AtomicFile file(name + "/large", AtomicFile::Size::kLarge);
    file.write(text);
    file.commit();
  }
  std::ifstream file(name + "/large", std::ios::binary);
  EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(file), {}) == text);
  fs::remove_all(name);
}

// Another user could have created a link with a name that can be guessed.
// That the content is then on the disk, tests/end_to_end/resume/crash.py shows.
TEST_F(AtomicFiles, WhatCannotBeSyncedIsNoErrorAndIsNotWaitedFor) {
  write_file(path("file"), "text");
  sync_file(path("file"));
  EXPECT_EQ(content("file"), "text");
  sync_file(path("absent"));
  sync_file("/dev/null");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  sync_file(path("pipe"));
  EXPECT_THROW(sync_file(path("file") + "/below"), DataError);
  EXPECT_EQ(files(), 2u);
}

TEST_F(AtomicFiles, TheTemporaryNameCannotBeGuessed) {
  std::string first;
  for (int i = 0; i < 2; ++i) {
    const AtomicFile file(path("a"));
    const std::string name = fs::directory_iterator(folder_)->path().filename().string();
    EXPECT_THAT(name, testing::MatchesRegex("\\.a\\.[0-9a-f]+\\.tmp"));
    EXPECT_NE(name, first);
    first = name;
  }
}

}  // namespace
}  // namespace runtime::system
