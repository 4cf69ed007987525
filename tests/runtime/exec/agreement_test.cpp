// Checks that ranks whose plans do not fit say so before the first step.
#include "runtime/exec/agreement.h"

#include <gmock/gmock.h>

#include "runtime/watch/call_plan.h"
#include "tests/runtime/exec/local_ranks.h"

namespace runtime::exec {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

struct Step {
  watch::Plan plan = {};

  Step& call(int32_t kind, int communicator, uint64_t count = 8, int peer = -1) {
    watch::PlanItem item;
    item.call = {.kind = kind, .dtype = RT_FLOAT32, .peer = peer, .count = count};
    item.call.communicator = static_cast<uint64_t>(communicator);
    item.call.position = watch::calls_in(plan) + 1;
    item.call.set_label("fc");
    plan.push_back(item);
    watch::PlanItem wait{.waits = true};
    wait.call.position = item.call.position;
    plan.push_back(wait);
    return *this;
  }
};

constexpr int kData = 0, kStatistics = 1, kTensor = 2, kStages = 3;

// Returns what each of the ranks throws. All of them share each communicator unless there are
// `groups`.
std::vector<std::string> errors(const std::vector<Step>& steps, const RankGroups& together,
                                const watch::Groups& groups = {}) {
  return on_local_ranks(
      static_cast<int>(steps.size()),
      [&](LocalRank& local) {
        RankGroups own = together;
        if (own.replicas.empty()) own.replicas = {local.rank};
        for (auto& [communicator, ranks] : own.equal) {
          if (groups.members) ranks = groups.members(communicator, local.rank);
        }
        agree_on(steps[static_cast<size_t>(local.rank)].plan, "a step of 64 samples", own,
                 local.collectives);
      },
      false, groups);
}

TEST(Agreement, OfEqualPlans) {
  const Step step = Step().call(RT_ALL_REDUCE, kTensor).call(RT_ALL_REDUCE, kTensor, 9);
  EXPECT_THAT(errors({step, step}, {.equal = {{kTensor, {0, 1}}}, .of_model = {{kTensor, 2}}}),
              Each(""));
}

TEST(Agreement, OnTheSizesOfATensorAxis) {
  EXPECT_THAT(
      errors({Step().call(RT_ALL_REDUCE, kTensor, 8), Step().call(RT_ALL_REDUCE, kTensor, 9)},
             {.equal = {{kTensor, {0, 1}}}, .of_model = {{kTensor, 2}}}),
      Each(AllOf(HasSubstr("the ranks disagree on collective (of a step of 64 samples) 1"),
                 HasSubstr("fc: all_reduce (8 float32), communicator 2"),
                 HasSubstr("fc: all_reduce (9 float32), communicator 2"))));
}

TEST(Agreement, OnTheOrderOfRanksWithTheSameSlices) {
  EXPECT_THAT(errors({Step().call(RT_ALL_REDUCE, kData).call(RT_BARRIER, kStatistics),
                      Step().call(RT_BARRIER, kStatistics).call(RT_ALL_REDUCE, kData)},
                     {.replicas = {0, 1}}),
              Each(HasSubstr("the ranks disagree on action (of a step of 64 samples) 1")));
}

TEST(Agreement, OfTheStagesOfAPipeline) {
  const Step first = Step().call(RT_SEND, kStages, 8, 1).call(RT_RECEIVE, kStages, 8, 1);
  const Step second = Step().call(RT_RECEIVE, kStages, 8, 0).call(RT_SEND, kStages, 8, 0);
  EXPECT_THAT(errors({first, second}, {.of_model = {{kStages, 2}}}), Each(""));
  EXPECT_THAT(errors({first, Step().call(RT_SEND, kStages, 8, 0)}, {.of_model = {{kStages, 2}}}),
              Each(AllOf(HasSubstr("would wait for each other for ever in a step of 64 samples"),
                         HasSubstr("rank 0 is in send to rank 1"),
                         HasSubstr("rank 1 is in send to rank 0"))));
}

// Ranks 0 and 1, and 2 and 3, share the tensor axis; 0 and 2, and 1 and 3, the pipeline. The calls
// on each communicator are equal, but each rank waits for the next one.
TEST(Agreement, OfACircleOverTwoAxes) {
  const watch::Groups groups{.names = {"", "", "the tensor axis", "the pipeline axis"},
                             .members = [](uint64_t communicator, int rank) {
                               if (communicator == kTensor)
                                 return rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
                               if (communicator == kStages)
                                 return std::vector<int>{rank % 2, rank % 2 + 2};
                               return std::vector<int>{0, 1, 2, 3};
                             }};
  const RankGroups together{.equal = {{kTensor, {}}}, .of_model = {{kTensor, 2}, {kStages, 2}}};
  const Step reduces_first = Step().call(RT_ALL_REDUCE, kTensor).call(RT_SEND, kStages, 8, 1);
  const Step sends_first = Step().call(RT_SEND, kStages, 8, 1).call(RT_ALL_REDUCE, kTensor);
  const Step receives_first = Step().call(RT_RECEIVE, kStages, 8, 0).call(RT_ALL_REDUCE, kTensor);
  const Step receives_last = Step().call(RT_ALL_REDUCE, kTensor).call(RT_RECEIVE, kStages, 8, 0);
  EXPECT_THAT(
      errors({reduces_first, reduces_first, receives_last, receives_last}, together, groups),
      Each(""));
  EXPECT_THAT(errors({reduces_first, sends_first, receives_first, receives_last}, together, groups),
              Each(AllOf(HasSubstr("rank 0 is in all_reduce of the tensor axis (8 float32, fc)"),
                         HasSubstr("rank 1 is in send to rank 3 along the pipeline axis"),
                         HasSubstr("rank 3 is in all_reduce"))));
}

}  // namespace
}  // namespace runtime::exec
