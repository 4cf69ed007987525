// The conformance cases, which the reference computes, against the rows of rt/sdk/definitions.h.
#include "rt/sdk/definitions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "backends/reference/kernel.h"
#include "plugins/conformance/conformance.h"
#include "plugins/conformance/values.h"
#include "rt/sdk/canonical_layout.h"

namespace backends::reference {
namespace {

using plugins::conformance::Case;
using rt::sdk::Definition;
using rt::sdk::OperandDefinition;

int64_t product(const int64_t* begin, const int64_t* end) {
  return std::accumulate(begin, end, int64_t{1}, std::multiplies<>());
}

int64_t axis_of(const plugins::host::Operation& operation) {
  for (const plugins::host::Attribute& a : operation.attributes)
    if (a.name == RT_ATTR_AXIS) return std::get<int64_t>(a.value);
  return 0;
}

// The sizes that the names in brackets stand for, in all operands of one operation.
using Sizes = std::map<std::string, int64_t>;

// Reads the dims of one operand as its row says, and adds their names to `sizes`. `[1]` is one
// element, also of a vector.
void expect_dims(const rt_tensor_desc& tensor, std::string_view row, int64_t axis, Sizes& sizes) {
  if (row.empty()) return;
  if (row == "[1]") {
    EXPECT_EQ(product(tensor.dims, tensor.dims + tensor.rank), 1);
    return;
  }
  std::vector<std::string> items;
  std::istringstream text(std::string(row.substr(1, row.size() - 2)));
  for (std::string item; std::getline(text, item, ',');)
    if (item != "1") items.push_back(item);
  const auto is_rest = [](const std::string& item) { return item.ends_with('*'); };
  const auto is_axis = [](const std::string& item) { return item.ends_with("^axis"); };
  int64_t rest = tensor.rank;
  for (const std::string& item : items) rest -= is_rest(item) ? 0 : is_axis(item) ? axis : 1;
  const int64_t* next = tensor.dims;
  for (const std::string& item : items) {
    const int64_t takes = is_rest(item) ? rest : is_axis(item) ? axis : 1;
    ASSERT_GE(takes, 0) << row;
    ASSERT_LE(next - tensor.dims + takes, tensor.rank) << row;
    const int64_t size = product(next, next + takes);
    const auto [known, is_new] = sizes.emplace(item.substr(0, 1), size);
    EXPECT_EQ(known->second, size) << row << ": " << item;
    next += takes;
  }
  EXPECT_EQ(next - tensor.dims, tensor.rank) << row;
}

void expect_type(const rt_tensor_desc& tensor, const OperandDefinition& row, rt_dtype type) {
  const bool narrow = rt::sdk::is_sixteen_bit(type);
  const rt_dtype expected = row.is(OperandDefinition::kIndex)            ? RT_INT32
                            : row.is(OperandDefinition::kCounter)        ? RT_INT64
                            : row.is(OperandDefinition::kWide) && narrow ? RT_FLOAT32
                                                                         : type;
  EXPECT_EQ(tensor.dtype, expected) << row.name;
}

void expect_attributes(const plugins::host::Operation& operation, const Definition& definition) {
  std::set<std::string_view> given;
  for (const plugins::host::Attribute& a : operation.attributes) {
    EXPECT_NE(definition.attributes.find(a.name), nullptr) << a.name;
    given.insert(a.name);
  }
  for (const rt::sdk::AttributeDefinition& row : definition.attributes)
    EXPECT_TRUE(row.fallback || given.contains(row.name)) << row.name;
}

// Returns how many inputs or outputs must be there.
template <class List>
size_t needed(const List& rows) {
  return std::count_if(rows.begin(), rows.end(),
                       [](const auto& row) { return !row.is(OperandDefinition::kOptional); });
}

// A cast has operands of two types, and products of matrices have results in float32, too.
bool has_two_types(const Case& c) {
  return c.operation.name == RT_OP_CAST ||
         (c.operation.name == RT_OP_MATMUL && c.operation.outputs[0].dtype != c.dtype);
}

void expect_row(const Case& c, const Definition& definition) {
  SCOPED_TRACE(c.name);
  const plugins::host::Operation& operation = c.operation;
  const auto reads = [](const auto& post) { return post.operand >= 0; };
  const auto stores = [](const auto& post) { return post.kind == RT_POST_STORE; };
  const auto& posts = operation.post_ops;
  const size_t inputs = operation.inputs.size() - std::count_if(posts.begin(), posts.end(), reads);
  const size_t outputs =
      operation.outputs.size() - std::count_if(posts.begin(), posts.end(), stores);
  EXPECT_GE(inputs, needed(definition.inputs));
  EXPECT_GE(outputs, needed(definition.outputs));
  Sizes sizes;
  const auto expect_operand = [&](const rt_tensor_desc& tensor, const OperandDefinition* row) {
    ASSERT_NE(row, nullptr) << "an operand without a row";
    if (!has_two_types(c)) expect_type(tensor, *row, c.dtype);
    expect_dims(tensor, row->dims, axis_of(operation), sizes);
  };
  for (size_t i = 0; i < inputs; ++i) expect_operand(operation.inputs[i], definition.input(i));
  for (size_t i = 0; i < outputs; ++i)
    expect_operand(operation.outputs[i], definition.output(i, inputs));
  expect_attributes(operation, definition);
  EXPECT_EQ(c.forward.has_value(), definition.has(Definition::kSavesData) &&
                                       operation.name.find("backward") != std::string::npos);
  EXPECT_TRUE(posts.empty() || definition.has(Definition::kPostOperations));
}

TEST(Definitions, TheReferenceHasAllOperations) {
  std::vector<std::string> names;
  for (const auto family : rt::sdk::kDefinitions) {
    for (const Definition& row : family) names.emplace_back(row.name);
  }
  EXPECT_THAT(operation_names(), testing::UnorderedElementsAreArray(names));
}

TEST(Definitions, TheCasesOfEachOperationHaveTheOperandsOfItsRow) {
  std::set<std::string> mandatory;
  for (const Case& c : plugins::conformance::all_cases()) {
    const Definition* const definition = rt::sdk::find_definition(c.operation.name);
    ASSERT_NE(definition, nullptr) << c.operation.name << " needs a row in rt/sdk/definitions";
    expect_row(c, *definition);
    if (c.mandatory) mandatory.insert(c.operation.name);
  }
  for (const std::string& name : operation_names())
    EXPECT_EQ(mandatory.contains(name), rt::sdk::has_trait(name, Definition::kMandatory)) << name;
}

using plugins::conformance::Bytes;
using plugins::host::Operation;

Kernel kernel_of(const Operation& operation) {
  return make_kernel(rt::sdk::Operation(plugins::host::OperationView(operation).get()));
}

std::vector<Bytes> outputs_of(const Operation& operation, const std::vector<Bytes>& inputs) {
  const Kernel kernel = kernel_of(operation);
  std::vector<Bytes> outputs;
  for (const rt_tensor_desc& y : operation.outputs) outputs.emplace_back(rt::sdk::tensor_bytes(y));
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const Bytes& bytes : inputs) in.push_back(bytes.data());
  for (Bytes& bytes : outputs) out.push_back(bytes.data());
  Bytes workspace(kernel.workspace_bytes), saved(kernel.saved_bytes);
  kernel.run({in.data(), out.data(), workspace.data(), saved.data()});
  return outputs;
}

// Adds the fallback of each attribute that the case leaves out; the results are the same. Without a
// mandatory attribute there is no kernel.
void expect_fallbacks(const Case& c, const Definition& definition) {
  SCOPED_TRACE(c.name);
  Operation complete = c.operation;
  for (const rt::sdk::AttributeDefinition& row : definition.attributes) {
    Operation without = c.operation;
    const auto erased =
        std::erase_if(without.attributes, [&](const auto& a) { return a.name == row.name; });
    if (!row.fallback) {
      EXPECT_THROW(kernel_of(without), rt::sdk::Error) << row.name;
    } else if (erased == 0 && row.name != RT_ATTR_WHOLE_COLUMNS) {
      complete.attributes.push_back({std::string(row.name), *row.fallback});
    }
  }
  if (c.forward || !c.operation.post_ops.empty()) return;
  std::vector<Bytes> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    inputs.push_back(plugins::conformance::make_values(c.operation.inputs[i], c.inputs[i]));
  EXPECT_EQ(outputs_of(complete, inputs), outputs_of(c.operation, inputs));
}

TEST(Definitions, AnAttributeThatIsLeftOutHasItsFallback) {
  for (const Case& c : plugins::conformance::all_cases()) {
    if (c.dtype != RT_FLOAT32) continue;
    const Definition* const definition = rt::sdk::find_definition(c.operation.name);
    ASSERT_NE(definition, nullptr) << c.operation.name << " needs a row in rt/sdk/definitions";
    expect_fallbacks(c, *definition);
  }
}

}  // namespace
}  // namespace backends::reference
