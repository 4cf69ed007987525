// Checks arguments and files of the programs built on trials.
#include "tools/trials/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/error.h"

namespace tools::trials {
namespace {

TEST(ConfigArguments, BecomeACommandLine) {
  const ConfigArguments arguments{"a.toml", {"optimizer.lr=1"}, 2};
  std::vector<std::string> line = {"bench"};
  arguments.append_to(line);
  EXPECT_THAT(line, testing::ElementsAre("bench", "a.toml", "--set", "optimizer.lr=1", "--set",
                                         "launch.ranks=2"));
}

TEST(NumberOf, FindsIntegersAndNumbers) {
  const auto config = runtime::config::parse_toml("[a]\nb = 3\nc = 0.5", "file");
  EXPECT_EQ(number_of(config, "a", "b"), 3);
  EXPECT_EQ(number_of(config, "a", "c"), 0.5);
  EXPECT_EQ(number_of(config, "a", "d"), 0);
  EXPECT_EQ(number_of(config, "x", "b"), 0);
}

TEST(OutputFiles, HoldThePlotOrTheData) {
  const std::filesystem::path folder =
      testing::TempDir() + "program_test." + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const OutputFiles files{{(folder / "a.svg").string(), (folder / "a.json").string()}};
  files.write({"title", "x", "y", false, false, {}}, {{"key", 1}});
  const auto text_of = [](const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  EXPECT_THAT(text_of(folder / "a.svg"), testing::HasSubstr("title"));
  EXPECT_EQ(Json::parse(text_of(folder / "a.json")), Json({{"key", 1}}));
  std::filesystem::remove_all(folder);
  EXPECT_THROW(files.write({}, {}), runtime::DataError);
}

}  // namespace
}  // namespace tools::trials
