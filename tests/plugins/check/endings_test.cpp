// What a plugin that ends, crashes or blocks its process costs: one check.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/plugins/check/program.h"

namespace plugins::check {
namespace {

struct Ending {
  const char* mutant;
  const char* words;  // what the report says of the end
};

void PrintTo(const Ending& ending, std::ostream* stream) { *stream << ending.mutant; }

class Endings : public testing::TestWithParam<Ending> {};

// `query` is the function that ends the process; checks that need no kernel go on.
TEST_P(Endings, CostTheirChecksOnly) {
  const ProgramResult result =
      run_check({MUTANT, "--quick", "--limit", "3", "--only", "plans", "--only", "library"},
                GetParam().mutant);
  EXPECT_EQ(result.exit_code, 3) << result.text;
  EXPECT_NE(result.text.find(GetParam().words), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("passed  library"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("failed  plans        are made by several threads"), std::string::npos)
      << result.text;
}

INSTANTIATE_TEST_SUITE_P(Of, Endings,
                         testing::Values(Ending{"exits", "ended with exit code 0"},
                                         Ending{"aborts", "was killed by SIGABRT"},
                                         Ending{"hangs", "did not end within 3 s"}),
                         [](const auto& info) { return info.param.mutant; });

TEST(Check, ReportsLibrariesThatDoNotLoad) {
  const ProgramResult result = run_check({FIXTURES "/libbroken_major.so"}, "");
  EXPECT_EQ(result.exit_code, 3) << result.text;
  EXPECT_NE(result.text.find("failed  library      loads"), std::string::npos) << result.text;
}

TEST(Check, FindsSymbolsThatOtherLibrariesSee) {
  const ProgramResult result = run_check({EXPORTING, "--only", "library"}, "");
  EXPECT_EQ(result.exit_code, 3) << result.text;
  EXPECT_NE(result.text.find("the first is a_helper_of_the_plugin"), std::string::npos)
      << result.text;
}

TEST(Check, RefusesWrongCommands) {
  EXPECT_EQ(run_check({}, "").exit_code, 2);
  EXPECT_EQ(run_check({"/dev/null/plugin.so"}, "").exit_code, 2);
  const ProgramResult group = run_check({MUTANT, "--only", "event"}, "");
  EXPECT_EQ(group.exit_code, 2);
  EXPECT_NE(group.text.find("did you mean \"events\"?"), std::string::npos) << group.text;
}

TEST(Check, FailsIfARequiredModelDoesNotTrain) {
  const ProgramResult result = run_check(
      {FIXTURES "/libexample.so", "--quick", "--only", "kernels", "--require", "lenet"}, "");
  EXPECT_EQ(result.exit_code, 3) << result.text;
  EXPECT_NE(result.text.find("required: lenet does not train: missing are"), std::string::npos)
      << result.text;
  EXPECT_EQ(
      run_check({FIXTURES "/libexample.so", "--quick", "--only", "kernels", "--require", "mlp"}, "")
          .exit_code,
      0);
}

TEST(Check, WritesJsonAndJUnit) {
  const std::filesystem::path folder = testing::TempDir();
  const std::string json = folder / "check.json", junit = folder / "check.xml";
  const ProgramResult result =
      run_check({MUTANT, "--only", "events", "--json", json, "--junit", junit}, "measures_no_time");
  EXPECT_EQ(result.exit_code, 3);
  const nlohmann::json read = nlohmann::json::parse(text_of(json));
  EXPECT_EQ(read["failed"], 1);
  int failed = 0;
  for (const auto& check : read["checks"]) failed += check["outcome"] == "failed";
  EXPECT_EQ(failed, 1);
  const std::string xml = text_of(junit);
  EXPECT_NE(xml.find("<testcase classname=\"events\" name=\"measure the time"), std::string::npos);
  EXPECT_NE(xml.find("<failure message=\"event_elapsed says"), std::string::npos);
}

}  // namespace
}  // namespace plugins::check
