// Checks how output is cut into lines and long lines into pieces.
#include "runtime/launch/line_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "tests/runtime/support/devices.h"

namespace runtime::launch {
namespace {

// Reads from a pipe what each call has written.
class LineOutput : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe2(ends_, O_NONBLOCK), 0); }
  void TearDown() override {
    close(ends_[0]);
    close(ends_[1]);
  }
  std::string written(Sink& sink) {
    std::string text;
    char buffer[4096];
    while (sink.waiting()) {
      sink.write_some();
      for (ssize_t n = 0; (n = read(ends_[0], buffer, sizeof(buffer))) > 0;)
        text.append(buffer, static_cast<size_t>(n));
    }
    return text;
  }
  int ends_[2];
};

TEST_F(LineOutput, LinesAreForwardedWhenTheyAreComplete) {
  Sink sink(ends_[1]);
  LineCutter cutter("[rank 1] ", sink);
  cutter.add("one\ntw");
  EXPECT_EQ(written(sink), "[rank 1] one\n");
  cutter.add("o\n\nthree");
  EXPECT_EQ(written(sink), "[rank 1] two\n[rank 1] \n");
  cutter.finish();
  EXPECT_EQ(written(sink), "[rank 1] three\n");
  cutter.finish();
  EXPECT_FALSE(sink.waiting());
}

TEST_F(LineOutput, WithoutPrefixALongLineStaysAsItIs) {
  Sink sink(ends_[1]);
  LineCutter cutter("", sink);
  const std::string text = std::string(LineCutter::kLongestLine + 7, 'x') + "\ny";
  cutter.add(text);
  cutter.finish();
  EXPECT_EQ(written(sink), text + "\n");
}

TEST_F(LineOutput, ALongLineIsCut) {
  Sink sink(ends_[1]);
  LineCutter cutter("> ", sink);
  const std::string full(LineCutter::kLongestLine, 'x');
  cutter.add(full);
  EXPECT_FALSE(sink.waiting());
  cutter.add("\n" + full + "x\n");
  EXPECT_EQ(written(sink), "> " + full + "\n> " + full + "\n> x\n");
}

TEST_F(LineOutput, LinesAreLoggedWithTimeAndMachine) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "logs" / "rank1.log").string();
  const auto log = std::make_shared<LineLog>(path);
  Sink sink(ends_[1]);
  LineCutter out("[rank 1] ", sink, log), err("[rank 1] ", sink, log);
  out.add("one\ntw");
  err.add("error\n");
  out.finish();
  EXPECT_EQ(written(sink), "[rank 1] one\n[rank 1] error\n[rank 1] tw\n");
  LineLog(path).add("of the next attempt");
  const std::string text = test::read_text(path);
  const std::regex form(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \S+ (.*))");
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    ASSERT_TRUE(std::regex_match(line, match, form)) << line;
    lines.push_back(match[1]);
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "error", "tw", "of the next attempt"}));
}

TEST_F(LineOutput, ALogThatCannotBeMadeIsAnError) {
  try {
    const LineLog log("/dev/null/rank0.log");
    FAIL();
  } catch (const ConfigurationError& error) {
    EXPECT_NE(std::string(error.what()).find("/dev/null/rank0.log"), std::string::npos);
  }
}

// A full disk loses the log, and nothing else.
TEST_F(LineOutput, ALogThatCannotBeWrittenIsSaidOnce) {
  const auto log = std::make_shared<LineLog>("/dev/full");
  Sink sink(ends_[1]);
  LineCutter cutter("", sink, log);
  testing::internal::CaptureStderr();
  cutter.add("one\ntwo\n");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("warning: /dev/full cannot be written"), std::string::npos) << said;
  EXPECT_EQ(said.find("warning", 10), std::string::npos) << said;
  EXPECT_EQ(written(sink), "one\ntwo\n");
}

TEST_F(LineOutput, AReaderThatIsGoneBreaksTheSink) {
  signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  Sink sink(ends[1]);
  sink.add("text");
  sink.write_some();
  EXPECT_EQ(sink.error(), EPIPE);
  sink.add("more");
  EXPECT_FALSE(sink.waiting());
  close(ends[1]);
  signal(SIGPIPE, SIG_DFL);
}

}  // namespace
}  // namespace runtime::launch
