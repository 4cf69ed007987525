// `runtime plugins check` finds every broken reader of data sets and every broken set of
// operations, and nothing in good ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tests/plugins/check/program.h"

namespace plugins::check {
namespace {

class ReaderMutants : public testing::TestWithParam<const char*> {
 public:
  ReaderMutants() {
    std::ofstream(sample_) << "1 1:5.1 2:3.5 3:1.4 4:0.2\n2 1:7 2:3.2 4:1.4\n3 1:6.3 3:6 4:2.5\n"
                              "1 2:3\n2 1:1\n";
  }
  ~ReaderMutants() override { std::filesystem::remove(sample_); }

  ProgramResult check(const std::string& mutant) const {
    return run_check({READER_MUTANT, "--only", "readers", "--sample", sample_.string(), "--shape",
                      "4", "--limit", "60"},
                     mutant);
  }

 private:
  static std::string name_of_test() {
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(name.begin(), name.end(), '/', '_');
    return name;
  }
  const std::filesystem::path sample_ =
      std::filesystem::path(testing::TempDir()) / ("sample_" + name_of_test() + ".txt");
};

TEST_P(ReaderMutants, IsFound) {
  const ProgramResult result = check(GetParam());
  EXPECT_EQ(result.exit_code, 3) << result.text;
  EXPECT_NE(result.text.find("\nfailed: readers"), std::string::npos) << result.text;
}

INSTANTIATE_TEST_SUITE_P(
    Faults, ReaderMutants,
    testing::Values("lists_a_format_twice", "describes_nothing", "ignores_tails", "ignores_options",
                    "leaks_memory", "leaves_files_open", "names_no_file", "has_no_message",
                    "calls_it_internal", "writes_whole_info", "counts_too_few_classes",
                    "has_other_targets", "ignores_the_indices", "depends_on_the_call",
                    "sorts_the_indices", "needs_features", "shares_the_indices",
                    "writes_one_byte_more", "counts_one_less", "divides_by_zero", "closes_nothing"),
    [](const auto& info) { return std::string(info.param); });

class ReaderCheck : public ReaderMutants {};

TEST_P(ReaderCheck, PassesWithoutAFault) {
  const ProgramResult result = check(GetParam());
  EXPECT_EQ(result.exit_code, 0) << result.text;
  EXPECT_NE(result.text.find("13 passed, 0 skipped"), std::string::npos) << result.text;
}

INSTANTIATE_TEST_SUITE_P(No, ReaderCheck, testing::Values(""),
                         [](const auto&) { return std::string("Fault"); });

class OperationMutants : public testing::TestWithParam<const char*> {};

TEST_P(OperationMutants, IsFound) {
  const ProgramResult result =
      run_check({OPERATION_MUTANT, "--only", "operations", "--limit", "60"}, GetParam());
  EXPECT_EQ(result.exit_code, 3) << result.text;
  EXPECT_NE(result.text.find("\nfailed: "), std::string::npos) << result.text;
}

INSTANTIATE_TEST_SUITE_P(Faults, OperationMutants,
                         testing::Values("describes_nothing", "has_an_operation_twice", "has_none",
                                         "has_a_wrong_default", "reads_without_looking",
                                         "throws_without_words", "takes_short_structs",
                                         "answers_another_type", "answers_negative_dims",
                                         "answers_a_large_rank", "counts_its_calls"),
                         [](const auto& info) { return std::string(info.param); });

TEST(OperationCheck, FindsNothingInTheGoodOperation) {
  const ProgramResult result = run_check({OPERATION_MUTANT}, "");
  EXPECT_EQ(result.exit_code, 0) << result.text;
  EXPECT_NE(result.text.find("forms taken"), std::string::npos) << result.text;
}

}  // namespace
}  // namespace plugins::check
