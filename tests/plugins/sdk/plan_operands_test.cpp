// Checks offsets of workspaces, saved data, and the objects that a launch finds.
#include "rt/sdk/plan_operands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plugins/sdk/description.h"

namespace rt::sdk {
namespace {

using testing::HasSubstr;

Description scale() {
  Description d(RT_OP_SCALE);
  d.in({2, 3}).out({2, 3});
  return d;
}

TEST(PlanOperands, PartsOfTheWorkspaceAreAligned) {
  Description d = scale();
  const Operation op(d.desc());
  PlanOperands plan(op);
  EXPECT_EQ(plan.in(0).bytes, 24u);
  EXPECT_EQ(plan.scratch(1).offset, 0u);
  EXPECT_EQ(plan.scratch(257).offset, 256u);
  EXPECT_EQ(plan.scratch(8).offset, 768u);
  plan.saves(40);
  plan.in_place[0] = 1;
  const rt_plan_info info = plan.info("vendor");
  EXPECT_EQ(info.workspace_bytes, 1024u);
  EXPECT_EQ(info.saved_bytes, 40u);
  EXPECT_EQ(info.in_place[0], 1u);
  EXPECT_STREQ(info.implementation, "vendor scale");
}

TEST(PlanOperands, FindsTheObjectsOfALaunch) {
  AddressMap<int> memory;
  auto* const x = static_cast<char*>(memory.add(1, 100));
  auto* const y = static_cast<char*>(memory.add(2, 24));
  auto* const scratch = static_cast<char*>(memory.add(3, 600));
  const void* inputs[] = {x + 64};
  void* outputs[] = {y};
  rt_launch launch{};
  launch.inputs = inputs;
  launch.outputs = outputs;
  launch.workspace = scratch;

  Description d = scale();
  const Operation op(d.desc());
  PlanOperands plan(op);
  plan.scratch(300);
  const Operand second = plan.scratch(8);
  EXPECT_EQ(plan.place(memory, plan.in(0), launch).object, 1);
  EXPECT_EQ(plan.place(memory, plan.in(0), launch).offset, 64u);
  EXPECT_EQ(plan.place(memory, plan.out(0), launch).object, 2);
  EXPECT_EQ(plan.place(memory, second, launch).object, 3);
  EXPECT_EQ(plan.place(memory, second, launch).offset, 512u);

  launch.saved = y;
  EXPECT_EQ(PlanOperands::address(plan.saves(8), launch), y);
  launch.workspace = nullptr;
  EXPECT_EQ(PlanOperands::address(second, launch), nullptr);
  inputs[0] = x + 80;  // 20 bytes are left there
  EXPECT_THAT(error_of([&] { plan.place(memory, plan.in(0), launch); }),
              HasSubstr("of operand 0, of which 20 are memory of this device"));
  Description empty(RT_OP_SCALE);
  empty.in({0, 3}).out({0, 3});
  const Operation nothing(empty.desc());
  inputs[0] = nullptr;
  EXPECT_FALSE(PlanOperands(nothing).place(memory, PlanOperands(nothing).in(0), launch));
}

TEST(PlanOperands, ABackwardPlanReadsWhatTheForwardPlanSaves) {
  Description d = scale();
  const Operation op(d.desc());
  PlanOperands forward(op), backward(op);
  forward.saves(40);
  EXPECT_EQ(backward.saved_by(&forward, 40).bytes, 40u);
  EXPECT_EQ(backward.saved_by(nullptr, 40).bytes, 40u) << "a query knows no forward plan";
  EXPECT_EQ(backward.info("vendor").saved_bytes, 0u);
  EXPECT_THAT(error_of([&] { backward.saved_by(&forward, 44); }),
              HasSubstr("the forward plan saves 40 bytes, expected 44"));
}

}  // namespace
}  // namespace rt::sdk
