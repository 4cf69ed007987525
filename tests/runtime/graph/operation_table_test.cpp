// Asks every row every question.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "rt/sdk/definitions.h"
#include "runtime/config/choices.h"
#include "runtime/graph/compositions.h"
#include "runtime/graph/host_operations.h"
#include "runtime/graph/operation_set.h"
#include "runtime/graph/rules.h"
#include "runtime/graph/signature.h"

namespace runtime::graph {
namespace {

TEST(OperationTable, NoRowForgetsAField) {
  for (const Operation& row : operations()) {
    SCOPED_TRACE(row.name);
    EXPECT_NE(row.kind, Kind{});
    EXPECT_NE(row.forward.gradient, nullptr);
    EXPECT_NE(row.forward.split, SplitRule{});
    EXPECT_NE(row.forward.precision, Precision{});
    EXPECT_NE(row.replication, Replication{});
    EXPECT_NE(row.composed, Composed{});
    EXPECT_NE(row.post_operations, PostOperations{});
    EXPECT_NE(row.defined_by, DefinedBy{});
  }
}

TEST(OperationTable, EveryNameHasOneRow) {
  std::set<std::string> names;
  for (const Operation& row : operations()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(find_operation(row.name), &row);
    EXPECT_EQ(row.defined_by == DefinedBy::kHost, is_host_operation(row.name)) << row.name;
  }
  EXPECT_EQ(find_operation("no_such_operation"), nullptr);
}

// Each definition of the SDK has a row of the graph, and each row of the contract has a definition.
TEST(OperationTable, TheOperationsOfTheContractAreThoseThatItDefines) {
  size_t defined = 0;
  for (const auto family : rt::sdk::kDefinitions) {
    for (const rt::sdk::Definition& definition : family) {
      const Operation* const row = find_operation(definition.name);
      ASSERT_NE(row, nullptr) << definition.name;
      EXPECT_EQ(row->definition, &definition);
      ++defined;
    }
  }
  for (const Operation& row : operations()) {
    EXPECT_EQ(row.definition != nullptr, row.defined_by == DefinedBy::kContract) << row.name;
    defined -= row.definition != nullptr;
  }
  EXPECT_EQ(defined, 0u);
}

TEST(OperationTable, AFormulaWithoutARowIsAFunctionOfOtherFormulas) {
  std::string texts;
  for (const Formula& formula : compositions()) texts += formula.text;
  for (const config::Loss& loss : config::losses()) texts += loss.formula + loss.gradient;
  const std::set<std::string> for_plugins = {"maximum", "minimum"};
  for (const Formula& formula : compositions()) {
    if (find_operation(formula.op) != nullptr || for_plugins.contains(formula.op)) continue;
    EXPECT_THAT(texts, testing::HasSubstr(formula.op + "("))
        << formula.op << " needs a row in operation_table.cpp";
  }
}

TEST(OperationTable, NoDeviceComputesWhatTheCoreDefines) {
  for (const Operation& row : operations()) {
    const bool composed = !row.formula.text.empty() || row.formula_rule != nullptr;
    if (row.defined_by == DefinedBy::kCore) {
      EXPECT_EQ(composed, row.name != kCollective) << row.name;
    }
    if (row.defined_by == DefinedBy::kHost) {
      EXPECT_FALSE(composed) << row.name;
    }
  }
}

// The names of the operands, by the definition or the formula.
OperandNames names_of(const Operation& row) {
  if (row.definition == nullptr) return operand_names(row.formula);
  OperandNames names;
  for (const auto& operand : row.definition->inputs) names.inputs.emplace_back(operand.name);
  for (const auto& operand : row.definition->outputs) names.outputs.emplace_back(operand.name);
  return names;
}

TEST(OperationTable, BackwardOperationsHaveOperandsOfTheForwardOperation) {
  for (const Operation& row : operations()) {
    if (row.forward.gradient != backward_operation) continue;
    const Operation* const backward = find_operation(row.name + "_backward");
    ASSERT_NE(backward, nullptr) << row.name << "_backward needs a row in operation_table.cpp";
    SCOPED_TRACE(backward->name);
    ASSERT_EQ(row.definition != nullptr, backward->definition != nullptr);
    if (row.definition != nullptr) {
      EXPECT_EQ(row.definition->has(rt::sdk::Definition::kSavesData),
                backward->definition->has(rt::sdk::Definition::kSavesData));
    }
    const OperandNames forward = names_of(row), own = names_of(*backward);
    std::set<std::string> known(forward.inputs.begin(), forward.inputs.end());
    for (const std::string& output : own.outputs)
      EXPECT_TRUE(output[0] == 'd' && known.contains(output.substr(1))) << output;
    known.insert(forward.outputs.begin(), forward.outputs.end());
    known.insert("d" + forward.outputs[0]);
    for (const std::string& input : own.inputs) EXPECT_TRUE(known.contains(input)) << input;
  }
}

TEST(OperationTable, AnOperationWithABackwardOperationHasAGradient) {
  for (const Operation& row : operations()) {
    if (find_operation(row.name + "_backward") != nullptr) {
      EXPECT_NE(row.forward.gradient, no_gradient) << row.name;
    }
  }
}

// Devices that support the base set alone train every model in float32. What a device's fusion
// makes, and what 16-bit training adds, needs no formula.
TEST(OperationTable, WhatIsNotInTheBaseSetIsComposed) {
  const std::set<std::string> others = {RT_OP_CONV2D_POOL2D, RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS,
                                        RT_OP_CROSS_ENTROPY_WITH_GRADIENT, RT_OP_LOSS_SCALE};
  using rt::sdk::Definition;
  for (const Operation& row : operations()) {
    if (row.definition == nullptr || others.contains(row.name)) continue;
    const bool composed = !row.formula.text.empty() || row.formula_rule != nullptr;
    EXPECT_TRUE(composed || row.definition->has(Definition::kMandatory | Definition::kBase))
        << row.name << " needs a row in compositions.cpp";
  }
}

// The kinds of which a split gives the right numbers; every kind can be computed whole.
std::set<Kind> kinds_that(SplitRule split) {
  switch (split) {
    case SplitRule::kWhole:
      break;
    case SplitRule::kElements:
      return {Kind::kElementwise, Kind::kConverts, Kind::kCopies};
    case SplitRule::kChannels:
      return {Kind::kChooses, Kind::kSum, Kind::kRandom};
    case SplitRule::kBroadcast:
      return {Kind::kElementwise, Kind::kAdds};
    case SplitRule::kPair:
      return {Kind::kElementwise};
    case SplitRule::kRows:
      return {Kind::kNormalisesRows};
    case SplitRule::kNormalised:
    case SplitRule::kMoments:
      return {Kind::kNormalisesChannels};
    case SplitRule::kWeights:
      return {Kind::kProduct};
    case SplitRule::kTable:
      return {Kind::kMoves};
    case SplitRule::kHeads:
      return {Kind::kAttention, Kind::kElementwise};
    case SplitRule::kKeyHeads:
      return {Kind::kAttention};
    case SplitRule::kClasses:
      return {Kind::kLoss, Kind::kChooses};
    case SplitRule::kTerm:
      return {Kind::kGradientScale};
  }
  return {};
}

TEST(OperationTable, TheKindAllowsTheSplit) {
  for (const Operation& row : operations()) {
    const SplitRule split = row.forward.split;
    EXPECT_TRUE(split == SplitRule::kWhole || kinds_that(split).contains(row.kind)) << row.name;
  }
}

// A device has no kernel of what the core defines, and nothing is composed in 16 bits.
TEST(OperationTable, WhatTheCoreDefinesStaysFloat32) {
  for (const Operation& row : operations()) {
    if (row.defined_by == DefinedBy::kCore && row.name != kCollective) {
      EXPECT_NE(row.forward.precision, Precision::kNarrow) << row.name;
    }
  }
}

TEST(OperationTable, RulesAgreeWithTheDefinition) {
  for (const Operation& row : operations()) {
    SCOPED_TRACE(row.name);
    if (row.post_operations == PostOperations::kFuses) {
      EXPECT_TRUE(row.definition->has(rt::sdk::Definition::kPostOperations));
    }
    const bool product = row.kind == Kind::kProduct || row.kind == Kind::kAttention;
    EXPECT_EQ(product, row.flops != nullptr);
    if (is_update(row.kind)) {
      EXPECT_EQ(row.composed, Composed::kLate);
    }
    if (row.forward.split == SplitRule::kMoments || row.replication == Replication::kMakesRows) {
      EXPECT_EQ(row.kind, Kind::kNormalisesChannels);
    }
  }
}

TEST(OperationTable, APluginsOperationHasARow) {
  Graph graph;
  add_operation(graph, {{"test.op", "x -> y", "y = x"}, {}, OpenGradient::kNone});
  Node node;
  node.op = "test.op";
  const Operation& row = operation_of(graph, node);
  EXPECT_EQ(row.defined_by, DefinedBy::kPlugin);
  EXPECT_EQ(row.forward.precision, Precision::kFloat32);
  EXPECT_EQ(row.forward.split, SplitRule::kWhole);
  node.op = "test.other";
  EXPECT_ANY_THROW(operation_of(graph, node));
}

}  // namespace
}  // namespace runtime::graph
