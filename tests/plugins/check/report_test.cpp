// What the rows of the checks become.
#include "plugins/check/report.h"

#include <gtest/gtest.h>

#include "plugins/check/models.h"

namespace plugins::check {
namespace {

std::vector<Row> kernels(const std::vector<std::string>& passed, const std::string& failed = "") {
  std::vector<Row> rows;
  for (const std::string& name : passed) rows.push_back({"kernels", name, Outcome::kPassed, "", 0});
  if (!failed.empty()) rows.push_back({"kernels", failed, Outcome::kFailed, "wrong", 0});
  return rows;
}

const ModelState& state_of(const std::vector<ModelState>& states, const std::string& preset) {
  for (const ModelState& state : states)
    if (state.preset == preset) return state;
  throw std::out_of_range(preset);
}

TEST(Models, TrainWithOwnKernelsOrWithTheBaseSet) {
  const auto own =
      model_states(kernels({"activation", "activation_backward", "add", "cross_entropy",
                            "cross_entropy_backward", "matmul", "reduce", "sgd"}));
  EXPECT_TRUE(state_of(own, "mlp").trains);
  EXPECT_FALSE(state_of(own, "lenet").trains);
  EXPECT_EQ(state_of(own, "lenet").others.size(), 5U);
  const auto base = model_states(kernels({kBaseSet}));
  EXPECT_TRUE(state_of(base, "lenet").trains);
}

TEST(Models, DoNotTrainWithAFaultyKernel) {
  const auto states = model_states(kernels({kBaseSet}, "conv2d"));
  EXPECT_FALSE(state_of(states, "lenet").trains);
  EXPECT_EQ(state_of(states, "lenet").faulty, std::vector<std::string>{"conv2d"});
  EXPECT_TRUE(state_of(states, "mlp").trains);
}

TEST(Models, WantFaultyKernelsFirstThenTheBaseSetThenSlowCompositions) {
  const auto next = next_operations(
      kernels({"activation", "activation_backward", "add", "cross_entropy",
               "cross_entropy_backward", "reduce", "sgd", "embedding", "embedding_backward"},
              "layer_norm"));
  EXPECT_EQ(next.at(0), "layer_norm");
  EXPECT_EQ(next.at(1), "matmul");
  EXPECT_EQ(next.at(2), "conv2d");
  EXPECT_TRUE(next_operations({}).size() > 10);
}

TEST(Report, EscapesXml) {
  const std::string xml = junit_of({}, {{"a<b", "x&\"y\"", Outcome::kFailed, "two\nlines", 1.5}});
  EXPECT_NE(xml.find("classname=\"a&lt;b\" name=\"x&amp;&quot;y&quot;\" time=\"1.500\""),
            std::string::npos)
      << xml;
  EXPECT_NE(xml.find("two&#10;lines"), std::string::npos) << xml;
}

TEST(Report, CountsAndNamesFailures) {
  const std::vector<Row> rows = {{"events", "wait", Outcome::kFailed, "one\ntwo", 0},
                                 {"events", "query", Outcome::kSkipped, "inline", 0}};
  EXPECT_EQ(failures_in(rows), 1);
  EXPECT_EQ(line_of(rows[0]), "failed  events       wait\n    one\n    two\n");
  EXPECT_EQ(summary_of(rows), "\n2 checks: 0 passed, 1 skipped, 1 failed\nfailed: events: wait\n");
}

}  // namespace
}  // namespace plugins::check
