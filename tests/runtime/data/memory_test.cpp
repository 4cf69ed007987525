// Small files that expand to large data: no reader takes more memory than its result justifies.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "runtime/data/array.h"
#include "runtime/data/csv.h"
#include "runtime/data/source.h"
#include "tests/runtime/data/files.h"

namespace runtime::data {
namespace {

using testing::HasSubstr;

constexpr std::size_t kMiB = std::size_t{1} << 20;

const CsvOptions kNumbers{{}, "-1", false, 0};

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve terabytes
std::size_t address_space() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Runs `action` in a process that may take `mib` MiB more memory. Returns the result of `action`,
// the message of its DataError, or "out of memory".
std::string with_memory(std::size_t mib, const std::function<std::string()>& action) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string text = "out of memory";
    text.reserve(4096);
    const rlimit limit{address_space() + mib * kMiB, RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
    try {
      text = action();
    } catch (const DataError& error) {
      text = error.what();
    } catch (const std::bad_alloc&) {
    }
    _exit(write(ends[1], text.data(), text.size()) < 0);
  }
  close(ends[1]);
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, read(ends[0], text.data(), 4096))));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return text;
}

class LittleMemory : public testing::Test {
 protected:
  // A file that is compressed by a factor of about a thousand.
  std::string write_bomb(const std::string& begin, char filling, const std::string& end) const {
    return folder_.write("bomb.gz", test::gzip(begin + std::string(200 * kMiB, filling) + end));
  }
  std::string samples_of(const std::string& path) const {
    return with_memory(64, [&] { return std::to_string(read_csv(path, kNumbers).part.samples); });
  }
  test::TempFolder folder_;
};

TEST_F(LittleMemory, TextThatIsNoTableTakesNone) {
  EXPECT_EQ(samples_of(write_bomb("1,2\n", '\n', "3,4\n")), "2");
}

TEST_F(LittleMemory, AnEndlessFieldIsRefused) {
  EXPECT_THAT(samples_of(write_bomb("1,2\n", '7', "\n")), HasSubstr("more than 1048576 bytes"));
  EXPECT_THAT(samples_of(write_bomb("1,\"2", '7', "\"\n")), HasSubstr("more than 1048576 bytes"));
}

TEST_F(LittleMemory, AnEndlessLineIsRefused) {
  EXPECT_THAT(samples_of(write_bomb("1", ',', "\n")), HasSubstr("at most 1048576 fields"));
}

TEST_F(LittleMemory, ATableThatDoesNotFitIsRefusedWithNumbers) {
  std::string lines;
  for (int i = 0; i < 10'000'000; ++i) lines += "1,2,3\n";  // 120 MB of floats
  const std::string path = folder_.write("bomb.gz", test::gzip(lines));
  EXPECT_THAT(samples_of(path),
              testing::AllOf(HasSubstr("samples so far"), HasSubstr("MiB of memory are available"),
                             HasSubstr("dataset.features")));
}

TEST_F(LittleMemory, TextsAndArraysThatDoNotFitAreRefusedWithNumbers) {
  const std::string text = write_bomb("", 'a', "");
  EXPECT_THAT(with_memory(64, [&] { return std::to_string(read_text(text).size()); }),
              HasSubstr("MiB of memory are available"));
  const std::string array = folder_.write(
      "idx.gz", test::gzip(test::idx(8, {200 * kMiB, 1}, std::string(200 * kMiB, 'a'))));
  EXPECT_THAT(with_memory(64, [&] { return std::to_string(read_idx(array).elements()); }),
              HasSubstr("MiB of memory are available"));
}
#endif

TEST(Csv, FieldsAndQuotesAcrossTheBlocksOfAFile) {
  // The file is so long that the ends of its 256 KiB blocks fall on every position of a line.
  const test::TempFolder folder;
  std::string text = "a,name\r\n";
  constexpr int kLines = 60'000;
  for (int i = 0; i < kLines; ++i)
    text += std::to_string(i) + " , \"class \"\"" + std::to_string(i % 3) + "\"\"\nof\"\r\n\n";
  const CsvTable table = read_csv(folder.write("long.csv", text), {{}, "name", true, 0});
  ASSERT_EQ(table.part.samples, kLines);
  EXPECT_THAT(table.class_names,
              testing::ElementsAre("class \"0\"\nof", "class \"1\"\nof", "class \"2\"\nof"));
  for (int i = 0; i < kLines; ++i) {
    ASSERT_EQ(table.part.floats[i], static_cast<float>(i));
    ASSERT_EQ(table.part.targets.labels[i], i % 3);
  }
}

TEST(Csv, AnErrorBehindManyBlocksHasItsLine) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "1,2\n";
  EXPECT_THAT(test::message_of([&] { parse_csv(text + "1,x\n", "t", kNumbers); }),
              HasSubstr("t: line 200001, column 2"));
  EXPECT_THAT(test::message_of([&] { parse_csv(text + "1,\"2\n", "t", kNumbers); }),
              HasSubstr("t: line 200001, column 2: a quoted field has no closing quote"));
}

TEST(Csv, ALabelThatIsNoName) {
  EXPECT_THAT(test::message_of([&] {
                parse_csv("1," + std::string(1025, 'l') + "\n", "t", {{}, "-1", true, 0});
              }),
              HasSubstr("1025 bytes; expected at most 1024"));
}

TEST(ReadText, ALimitIsKept) {
  const test::TempFolder folder;
  const std::string path = folder.write("text", std::string(3 * kMiB, 't'));
  EXPECT_EQ(read_text(path, 3 * kMiB).size(), 3 * kMiB);
  EXPECT_THAT(test::message_of([&] { read_text(path, 3 * kMiB - 1); }),
              HasSubstr("expected at most 3145727 bytes"));
}

}  // namespace
}  // namespace runtime::data
