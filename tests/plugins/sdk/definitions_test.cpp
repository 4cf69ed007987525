// The rows of the operations: each is well formed, and each operation of the contract has one.
#include "rt/sdk/definitions.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace rt::sdk {
namespace {

std::string header() {
  std::ostringstream text;
  text << std::ifstream(OPERATIONS_HEADER).rdbuf();
  return text.str();
}

// The texts of all constants of rt/operations.h with this prefix.
std::multiset<std::string> names_in_header(const std::string& prefix) {
  const std::string text = header();
  const std::regex row("#define " + prefix + R"([A-Z0-9_]+\s(?:\\\n)?\s*"([a-z0-9_]+)\")");
  std::multiset<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), row), end; it != end; ++it)
    names.insert((*it)[1]);
  return names;
}

template <class Visit>
void for_each_row(Visit&& visit) {
  for (const std::span<const Definition> family : kDefinitions) {
    for (const Definition& row : family) {
      SCOPED_TRACE(row.name);
      visit(row);
    }
  }
}

TEST(Definitions, EachOperationHasOneRow) {
  std::multiset<std::string> rows;
  for_each_row([&](const Definition& row) { rows.emplace(row.name); });
  EXPECT_GT(rows.size(), 55u);
  EXPECT_EQ(rows, names_in_header("RT_OP_"));
  for (const std::string& name : rows) EXPECT_EQ(find_definition(name)->name, name);
  EXPECT_EQ(find_definition("plugin.operation"), nullptr);
  EXPECT_FALSE(has_trait("plugin.operation", Definition::kMandatory));
}

TEST(Definitions, EachAttributeIsOneOfTheContract) {
  const std::multiset<std::string> names = names_in_header("RT_ATTR_");
  std::set<std::string> used;
  for_each_row([&](const Definition& row) {
    std::set<std::string> own;
    for (const AttributeDefinition& attribute : row.attributes) {
      EXPECT_EQ(names.count(std::string(attribute.name)), 1u) << attribute.name;
      EXPECT_TRUE(own.emplace(attribute.name).second) << attribute.name;
    }
    used.merge(own);
  });
  EXPECT_EQ(used, std::set(names.begin(), names.end()));
}

void expect_operands(const auto& operands) {
  std::set<std::string> names;
  bool optional = false;
  for (const OperandDefinition& operand : operands) {
    EXPECT_TRUE(std::regex_match(std::string(operand.name), std::regex("[a-z][a-z_]*")));
    EXPECT_TRUE(names.emplace(operand.name).second) << operand.name;
    EXPECT_FALSE(operand.is(OperandDefinition::kIndex) && operand.is(OperandDefinition::kCounter))
        << operand.name;
    EXPECT_FALSE(operand.is(OperandDefinition::kIndex | OperandDefinition::kCounter) &&
                 operand.is(OperandDefinition::kWide | OperandDefinition::kExact))
        << operand.name << ": only floating-point numbers have fewer bits";
    EXPECT_TRUE(operand.is(OperandDefinition::kOptional) || !optional)
        << operand.name << " stands behind an optional operand";
    optional = operand.is(OperandDefinition::kOptional);
    static const std::regex dims(R"(|\[(1|[A-Z][*]?|[A-Z]\^[a-z]+)(,(1|[A-Z][*]?))*\])");
    EXPECT_TRUE(std::regex_match(std::string(operand.dims), dims)) << operand.dims;
  }
}

TEST(Definitions, OperandsAreWellFormed) {
  for_each_row([](const Definition& row) {
    expect_operands(row.inputs);
    expect_operands(row.outputs);
    EXPECT_FALSE(row.outputs.empty());
    for (const OperandDefinition& output : row.outputs) {
      const OperandDefinition* const input = row.inputs.find(output.name);
      EXPECT_FALSE(output.is(OperandDefinition::kExact) || output.is(OperandDefinition::kRepeated))
          << output.name;
      ASSERT_TRUE(!output.is(OperandDefinition::kInPlace) || input != nullptr) << output.name;
      EXPECT_TRUE(!output.is(OperandDefinition::kInPlace) || input->dims == output.dims)
          << output.name;
    }
    for (const OperandDefinition& input : row.inputs)
      EXPECT_FALSE(input.is(OperandDefinition::kInPlace)) << input.name;
  });
}

// A property or a trait that one operation has alone would be the name of that operation.
TEST(Definitions, APropertyFitsASecondOperation) {
  for (uint32_t property = OperandDefinition::kRows; property <= OperandDefinition::kInPlace;
       property *= 2) {
    if (property == OperandDefinition::kRepeated) continue;  // of a list, which only `concat` has
    int rows = 0;
    for_each_row([&](const Definition& row) {
      bool any = false;
      for (const OperandDefinition& o : row.inputs) any |= o.is(property);
      for (const OperandDefinition& o : row.outputs) any |= o.is(property);
      rows += any ? 1 : 0;
    });
    EXPECT_GT(rows, 1) << property;
  }
  for (uint32_t trait = Definition::kMandatory; trait <= Definition::kRowLayouts; trait *= 2) {
    int rows = 0;
    for_each_row([&](const Definition& row) { rows += row.has(trait) ? 1 : 0; });
    EXPECT_GT(rows, 1) << trait;
  }
}

}  // namespace
}  // namespace rt::sdk
