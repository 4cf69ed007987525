// Signatures of formulas as data.
#include "runtime/graph/signature.h"

#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/runtime/support/devices.h"

namespace runtime::graph {
namespace {

Signature read(const std::string& text) { return read_signature({"test.op", text, ""}); }

bool matches(const std::string& operand, const Dims& dims, NamedDims& names, int64_t axis = 1) {
  return match(
      read(operand + " -> y").inputs[0], dims, [&](const std::string&) { return axis; }, names);
}

TEST(Signature, HasOperandsAttributesAndTheirTexts) {
  const Signature s = read("x[N,S*,1] table w[A^axis] {axis groups=1} -> y[N,S*]");
  ASSERT_EQ(s.inputs.size(), 3u);
  EXPECT_EQ(s.inputs[0].view_text, "[N,S*,1]");
  EXPECT_FALSE(s.inputs[1].shaped);
  EXPECT_EQ(s.inputs[2].view[0].attribute, "axis");
  EXPECT_EQ(s.attributes, (std::vector<std::string>{"axis", "groups"}));
  EXPECT_EQ(s.attributes_text, "{axis groups=1}");
  ASSERT_EQ(s.outputs.size(), 1u);
  EXPECT_EQ(s.outputs[0].name, "y");
}

TEST(Signature, NamesStandForTheDimsThatTheyTake) {
  NamedDims names;
  EXPECT_TRUE(matches("x[N,S*,C]", {2, 3, 4, 5}, names));
  EXPECT_EQ(names, (NamedDims{{"N", {2}}, {"S", {3, 4}}, {"C", {5}}}));
  EXPECT_TRUE(matches("x[C]", {5}, names));
  EXPECT_FALSE(matches("x[C]", {6}, names)) << "C is 5 already";
  NamedDims others;
  EXPECT_TRUE(matches("x[A^axis,1,L,B*]", {2, 3, 4}, others, 2));
  EXPECT_EQ(others, (NamedDims{{"A", {2, 3}}, {"L", {4}}, {"B", {}}}));
}

TEST(Signature, ATensorOfAnotherRankDoesNotMatch) {
  NamedDims names;
  EXPECT_FALSE(matches("x[N,T,C]", {2, 3}, names));
  EXPECT_FALSE(matches("x[N,T,C]", {2, 3, 4, 5}, names));
  EXPECT_FALSE(matches("x[A^axis,L]", {2, 3}, names, 7));
  EXPECT_FALSE(matches("x[A^axis,L]", {2, 3}, names, -1));
}

TEST(Signature, AFaultNamesPluginOperationAndPlace) {
  for (const char* text : {"x[N", "x[2] -> y", "x {a", "x y", "-> -> y", "x[] -> y", "\xff -> y"}) {
    const std::string message = test::message_of<DeviceError>([&] { read(text); });
    EXPECT_NE(message.find("plugin 'test': the formula of its operation 'op'"), std::string::npos)
        << text << ": " << message;
    EXPECT_NE(message.find(", character "), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace runtime::graph
