// Gradients of operations of plugins beside central differences: right ones and wrong ones.
#include "tools/verify/check_gradients.h"

#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/runtime/support/devices.h"

namespace runtime::verify {
namespace {

// A model of one layer, which sees 70 features and has a learned scale.
std::vector<GradientCheck> check(const std::string& gradient) {
  auto operation = std::make_shared<config::OpenOperation>();
  operation->name = "test.cube";
  operation->signature = "x[R*,D] weight[D] -> y[R*,D]";
  operation->formula = "y = x * x * x * weight";
  operation->gradient = gradient;
  operation->parameters = {{"weight", true, 1}};
  model::Model model;
  model.input = {70};
  model::Layer layer;
  layer.kind = model::Open{operation, {}};
  layer.name = "cube";
  model.layers = {layer};
  return check_gradients(model, test::open_device("reference"));
}

TEST(CheckGradients, ThoseOfTheFormulaAreRight) {
  for (const char* gradient :
       {"", "dx = 3 * dy * x * x * weight; dweight = sum(dy * x * x * x, 0)"}) {
    const auto checks = check(gradient);
    ASSERT_EQ(checks.size(), 2u);
    EXPECT_EQ(checks[0].layer, "cube");
    EXPECT_EQ(checks[0].operation, "test.cube");
    EXPECT_EQ(checks[1].operand, "weight");
    for (const GradientCheck& c : checks) EXPECT_LT(c.error, 1e-8) << c.operand;
  }
}

TEST(CheckGradients, AWrongOneIsNamedWithAnElement) {
  const auto checks = check("dx = 3 * dy * x * x * weight; dweight = sum(dy * x * x, 0)");
  EXPECT_TRUE(checks[0].right());
  EXPECT_FALSE(checks[1].right());
  EXPECT_EQ(checks[1].index.size(), 1u);
  EXPECT_NE(checks[1].gradient, checks[1].difference);
}

TEST(CheckGradients, NoNumberIsWrong) {
  EXPECT_FALSE(check("dx = log(0 - x * x); dweight = sum(dy * x * x * x, 0)")[0].right());
}

TEST(CheckGradients, AModelWithoutSuchLayersHasNone) {
  model::Model model;
  model.input = {3};
  model::Layer layer;
  layer.kind = model::Linear{.features = 2};
  model.layers = {layer};
  EXPECT_TRUE(check_gradients(model, test::open_device("reference")).empty());
}

}  // namespace
}  // namespace runtime::verify
