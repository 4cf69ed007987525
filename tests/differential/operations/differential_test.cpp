// The harness finds the faults of a device, and survives them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include "plugins/conformance/conformance.h"
#include "rt/operations.h"
#include "tests/differential/operations/compare.h"
#include "tests/differential/operations/draw.h"
#include "tests/differential/operations/oracle.h"
#include "tests/differential/operations/run.h"
#include "tests/differential/operations/shrink.h"

namespace differential {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(DifferentialFamilies, CoverEveryOperation) {
  const std::vector<std::string> operations = plugins::conformance::covered_operations();
  EXPECT_EQ(families().size(), operations.size());
  for (const std::string& name : operations) EXPECT_NO_THROW(family_of(name)) << name;
}

TEST(DifferentialRecipe, ReadsWhatItWrites) {
  for (uint64_t k = 0; k < 500; ++k) {
    const Recipe recipe = draw_recipe({{RT_FLOAT32, RT_BFLOAT16}, {}}, 7, k);
    EXPECT_TRUE(parse_recipe(to_text(recipe)) == recipe) << to_text(recipe);
    EXPECT_TRUE(build_case(recipe).has_value()) << to_text(recipe);
  }
}

TEST(DifferentialRecipe, NamesTheWordThatIsWrong) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      build_case(parse_recipe(text));
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(message("relu"), HasSubstr("an operation and a type"));
  EXPECT_THAT(message("square_sum int4"), HasSubstr("\"int4\"; expected float32"));
  EXPECT_THAT(message("square_sum float32 rank=x"), HasSubstr("\"rank=x\""));
  EXPECT_THAT(message("square_sum float32 rank=1"), HasSubstr("lacks d0="));
  EXPECT_THAT(message("clip_scale float32 tenths=1 square=1 depth=3"), HasSubstr("depth"));
  EXPECT_THAT(message("clip_scale float32 plant=0:1:two"), HasSubstr("\"two\""));
  EXPECT_THAT(message("nothing float32"), HasSubstr("no family"));
}

// --- comparison

std::optional<std::string> compare(const std::vector<double>& actual,
                                   const std::vector<double>& expected,
                                   const std::vector<double>& disturbed, bool exact = false,
                                   NotFinite not_finite = NotFinite::kSame) {
  const Allowance allowance{.tolerance = 1e-5,
                            .exact = exact,
                            .not_finite = not_finite,
                            .disturbed = [&]() -> auto& {return disturbed;
}
};  // namespace
return difference(RT_FLOAT32, encode(RT_FLOAT32, actual), expected, allowance);
}  // namespace differential

TEST(DifferentialCompare, AllowsTheToleranceInTheNorm) {
  EXPECT_FALSE(compare({1, 2 + 1e-5}, {1, 2}, {1, 2}));
  EXPECT_THAT(compare({1, 2 + 1e-4}, {1, 2}, {1, 2}).value(), HasSubstr("element 1"));
}

TEST(DifferentialCompare, ForgivesWhatRoundingOfTheOperandsDoes) {
  EXPECT_TRUE(compare({1e-4}, {0}, {1e-6}));
  EXPECT_FALSE(compare({1e-4}, {0}, {2e-4}));
}

TEST(DifferentialCompare, ForgivesTheToleranceBesideAChoiceThatRoundingTurns) {
  EXPECT_FALSE(compare({-100.0005, 1}, {100, 1}, {-100, 1}));
  EXPECT_TRUE(compare({-100.01, 1}, {100, 1}, {-100, 1}));
}

TEST(DifferentialCompare, ForgivesTheLastBitsOfTermsThatCancel) {
  const std::vector<double> terms = {1e6, 1}, expected = {0, 1};
  const auto compare_sums = [&](const std::vector<double>& actual) {
    const auto terms_of = [&]() -> auto& { return terms; };
    const auto undisturbed = [&]() -> auto& { return expected; };
    const Allowance allowance{.tolerance = 1e-5, .disturbed = undisturbed, .magnitudes = terms_of};
    return difference(RT_FLOAT32, encode(RT_FLOAT32, actual), expected, allowance);
  };
  EXPECT_FALSE(compare_sums({0.1, 1}));
  EXPECT_TRUE(compare_sums({1, 1}));
}

TEST(DifferentialCompare, WantsNanAndInfinityWhereTheyBelong) {
  EXPECT_FALSE(compare({kNan, kInfinity}, {kNan, kInfinity}, {}));
  EXPECT_TRUE(compare({1}, {kNan}, {}));
  EXPECT_TRUE(compare({kNan}, {1}, {}));
  EXPECT_TRUE(compare({-kInfinity}, {kInfinity}, {}));
  EXPECT_FALSE(compare({kInfinity}, {1e60}, {}));  // 1e60 overflows float32
}

TEST(DifferentialCompare, WhatIsNotFiniteMaySpreadWhereTheFamilySaysSo) {
  EXPECT_FALSE(compare({kNan, kNan, 1}, {1, kInfinity, 1}, {}, false, NotFinite::kMaySpread));
  EXPECT_TRUE(compare({1}, {kNan}, {}, false, NotFinite::kMaySpread));
  EXPECT_FALSE(compare({kNan}, {kInfinity}, {}, false, NotFinite::kAny));
  EXPECT_TRUE(compare({kNan}, {1}, {}, false, NotFinite::kAny));
}

TEST(DifferentialCompare, LargeNumbersDoNotHideSmallOnes) {
  EXPECT_TRUE(compare({1e30, 1.5}, {1e30, 1}, {1e30, 1}));
}

TEST(DifferentialCompare, ExactMeansTheSignOfZeroToo) {
  EXPECT_FALSE(compare({-0.0}, {-0.0}, {}, true));
  EXPECT_TRUE(compare({0.0}, {-0.0}, {}, true));
}

// --- shrinking

TEST(DifferentialShrink, KeepsOnlyWhatTheFailureNeeds) {
  const Recipe recipe = parse_recipe(
      "matmul float32 m=40 n=17 k=33 leading=2 batch=3 heads=2 ta=1 tb=1 batched_b=1 "
      "post=bias,residual,relu fill=huge@1 plant=0:900:nan;1:4:inf seed=77 threads=5");
  const Recipe shrunk = shrink(recipe, [](const Recipe& r) {
    const bool residual = std::find(r.post.begin(), r.post.end(), "residual") != r.post.end();
    return r.numbers.at("n") >= 5 && residual;
  });
  EXPECT_EQ(to_text(shrunk),
            "matmul float32 batch=1 batched_b=0 heads=1 k=0 leading=0 m=0 n=5 ta=0 tb=0 "
            "post=residual seed=1");
}

// --- child processes

Worker::Handler make_echo() {
  return [](const std::string& question) -> std::string {
    if (question == "crash") raise(SIGABRT);  // AddressSanitizer would turn SIGSEGV into an exit
    if (question == "leave") _exit(3);
    if (question == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
    return "echo " + question;
  };
}

TEST(DifferentialWorker, SaysHowAChildDiedAndGoesOn) {
  Worker worker(make_echo, std::chrono::seconds(2));
  EXPECT_EQ(worker.ask("one").text, "echo one");
  EXPECT_EQ(worker.ask("crash").death, "SIGABRT");
  EXPECT_EQ(worker.ask("leave").death, "exit code 3");
  EXPECT_EQ(worker.ask("hang").death, "no answer within 2 s");
  EXPECT_EQ(worker.ask("two").text, "echo two");
}

TEST(DifferentialWorker, PassesOnWhyItCannotBegin) {
  Worker worker([]() -> Worker::Handler { throw std::runtime_error("no such device"); },
                std::chrono::seconds(5));
  EXPECT_THROW(worker.ask("one"), std::runtime_error);
}

// --- expected results

// The largest relative change of the only element of a mean that the oracle allows.
double forgiven(const std::string& values) {
  const auto reference =
      plugins::host::Device::open(load_plugin("reference", {REFERENCE_FOLDER}), 0);
  const Recipe recipe =
      parse_recipe("global_avg_pool float32 n=1 h=1 w=1 c=1 " + values + " seed=1");
  const std::optional<Case> c = build_case(recipe);
  Oracle oracle(*reference, recipe, *c, make_operands(recipe, *c));
  const double expected = oracle.expected(0).at(0);
  const Allowance allowance = oracle.allowance(0, 1e-5);
  return std::abs(allowance.disturbed().at(0) - expected) / std::abs(expected);
}

// Half of 1e-40 has 15 bits in float32, and a post-operation may amplify its rounding error.
TEST(DifferentialOracle, ForgivesTheFewDigitsOfTinyNumbers) {
  EXPECT_NEAR(forgiven(""), 1e-5, 1e-6);
  EXPECT_NEAR(forgiven("plant=0:0:tiny"), 1.0 / 64, 1e-3);
}

// --- faults of a device

RunOptions simulated(const std::map<std::string, std::string>& device_options) {
  RunOptions options;
  options.device.plugin = "simulated";
  options.device.folders = {SIMULATED_FOLDER, REFERENCE_FOLDER};
  options.device.options = device_options;
  options.device.options["max_delay_us"] = "0";
  return options;
}

Outcome check(const std::map<std::string, std::string>& device_options, const std::string& text) {
  return Laboratory(simulated(device_options)).check(parse_recipe(text));
}

constexpr const char* kMatmul =
    "matmul float32 m=3 n=4 k=5 leading=0 batch=1 heads=1 ta=0 tb=0 batched_b=0 post=bias seed=1";

TEST(DifferentialCheck, PassesADeviceThatIsRight) {
  const Outcome outcome = check({}, kMatmul);
  EXPECT_EQ(outcome.status, "passed");
  EXPECT_GE(outcome.candidates, 2);  // at least one with and one without the bias
}

// The result of tanh_backward, -1e60, overflows float32. gelu of -infinity is NaN, but gelu of
// -1e60 is 0.
TEST(DifferentialCheck, ForgivesWhatOverflowsBetweenPostOperations) {
  const std::string text =
      "matmul float32 m=3 n=4 k=1 leading=0 batch=1 heads=1 ta=0 tb=0 batched_b=0 "
      "post=tanh_backward,gelu fill=huge seed=1";
  EXPECT_EQ(check({}, text).status, "passed");
}

TEST(DifferentialCheck, FindsAWrongNumber) {
  const Outcome outcome = check({{"corrupt", "matmul"}}, kMatmul);
  ASSERT_THAT(outcome.findings, Not(IsEmpty()));
  EXPECT_EQ(outcome.findings[0].kind, "wrong");
  EXPECT_THAT(outcome.findings[0].detail, HasSubstr("output 0 element 0 is nan"));
}

TEST(DifferentialCheck, FindsAByteBehindAnOutput) {
  const Outcome outcome = check({{"overrun", "matmul"}}, kMatmul);
  ASSERT_THAT(outcome.findings, Not(IsEmpty()));
  EXPECT_EQ(outcome.findings[0].kind, "broken");
  EXPECT_THAT(outcome.findings[0].detail, HasSubstr("behind its"));
}

TEST(DifferentialCheck, FindsALaunchThatFails) {
  const Outcome outcome = check({{"fail_launch", "matmul"}}, kMatmul);
  ASSERT_THAT(outcome.findings, Not(IsEmpty()));
  EXPECT_EQ(outcome.findings[0].kind, "refused");
}

TEST(DifferentialCheck, CountsARefusal) {
  const Outcome outcome = check({{"refuse", "matmul"}}, kMatmul);
  EXPECT_EQ(outcome.status, "refused");
  EXPECT_THAT(outcome.reason, HasSubstr("refuse"));
}

// --- runs

class DifferentialRun : public ::testing::Test {
 protected:
  DifferentialRun() : folder_(::testing::TempDir() + "differential_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~DifferentialRun() override { std::filesystem::remove_all(folder_); }

  RunOptions options(const std::map<std::string, std::string>& device_options) const {
    RunOptions options = simulated(device_options);
    options.cases = 20;
    options.draw.operations = {RT_OP_SQUARE_SUM, RT_OP_TRANSPOSE};
    options.results = folder_ + "/results.jsonl";
    return options;
  }

  std::string folder_;
};

TEST_F(DifferentialRun, ResumesWhereItWasStopped) {
  RunOptions run = options({});
  run.last_seed = 2;
  EXPECT_TRUE(run_seeds(run));
  std::ofstream(run.results, std::ios::app) << "{\"device\": \"simu";  // an incomplete last line
  run.last_seed = 4;
  EXPECT_TRUE(run_seeds(run));
  const std::vector<Chunk> chunks = read_results(run.results);
  ASSERT_THAT(chunks, SizeIs(4));
  for (size_t i = 0; i < chunks.size(); ++i) EXPECT_EQ(chunks[i].seed, i + 1);
}

TEST_F(DifferentialRun, KeepsFailuresWithTheirShrunkCase) {
  const RunOptions run = options({{"corrupt", RT_OP_SQUARE_SUM}});
  EXPECT_FALSE(run_seeds(run));
  const std::vector<Chunk> chunks = read_results(run.results);
  ASSERT_THAT(chunks, SizeIs(1));
  EXPECT_EQ(chunks[0].tally.rows.at(RT_OP_TRANSPOSE).wrong, 0);
  const Row& row = chunks[0].tally.rows.at(RT_OP_SQUARE_SUM);
  EXPECT_EQ(row.wrong, row.cases);
  ASSERT_THAT(chunks[0].failures, Not(IsEmpty()));
  EXPECT_EQ(chunks[0].failures[0].shrunk, "square_sum float32 d0=0 d1=0 d2=0 d3=0 rank=1 seed=1");
  const std::string text = summary_text(chunks);
  EXPECT_THAT(text, HasSubstr("square_sum"));
  EXPECT_THAT(text, HasSubstr("--replay 'square_sum float32"));
}

}  // namespace
}  // namespace differential
