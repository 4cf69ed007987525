// Compares float16 and bfloat16 with float32: in every conformance case the result equals that of
// the float32 kernel on the same numbers, rounded once.
#include "backends/reference/sixteen_bit.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "plugins/conformance/conformance.h"
#include "plugins/conformance/values.h"
#include "rt/sdk/canonical_layout.h"
#include "rt/sdk/definitions.h"

namespace backends::reference::testing {
namespace {

using plugins::conformance::Bytes;
using plugins::conformance::Case;
using plugins::conformance::Values;
using plugins::host::Operation;
using plugins::host::OperationView;

bool is_narrow(rt_dtype dtype) { return dtype == RT_FLOAT16 || dtype == RT_BFLOAT16; }

template <typename T>
std::vector<T> elements(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Bytes widen(rt_dtype from, const Bytes& bytes) {
  std::vector<float> values;
  for (const uint16_t bits : elements<uint16_t>(bytes)) {
    values.push_back(from == RT_FLOAT16 ? rt::sdk::from_float16(bits)
                                        : rt::sdk::from_bfloat16(bits));
  }
  return bytes_of(values);
}

Bytes round_to(rt_dtype to, const Bytes& bytes) {
  std::vector<uint16_t> values;
  for (const float value : elements<float>(bytes)) {
    values.push_back(to == RT_FLOAT16 ? rt::sdk::to_float16(value) : rt::sdk::to_bfloat16(value));
  }
  return bytes_of(values);
}

Operation with_float32(Operation operation) {
  for (rt_tensor_desc& t : operation.inputs) t.dtype = is_narrow(t.dtype) ? RT_FLOAT32 : t.dtype;
  for (rt_tensor_desc& t : operation.outputs) t.dtype = is_narrow(t.dtype) ? RT_FLOAT32 : t.dtype;
  return operation;
}

// The outputs. A forward operation writes `saved`, a backward operation reads it.
std::vector<Bytes> run_on_bytes(const Operation& operation, const std::vector<Bytes>& inputs,
                                Bytes& saved) {
  const OperationView view(operation);
  const Kernel kernel = make_kernel(rt::sdk::Operation(view.get()));
  std::vector<Bytes> outputs;
  for (const auto& y : operation.outputs)
    outputs.emplace_back(rt::sdk::tensor_bytes(y), std::byte{0xFF});
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const Bytes& bytes : inputs) in.push_back(bytes.data());
  for (Bytes& bytes : outputs) out.push_back(bytes.data());
  Bytes workspace(kernel.workspace_bytes, std::byte{0xFF});
  if (kernel.saved_bytes > 0) saved.assign(kernel.saved_bytes, std::byte{0xFF});
  EXPECT_EQ(kernel.reads_saved, kernel.reads_saved > 0 ? saved.size() : 0);
  kernel.run({in.data(), out.data(), workspace.data(), saved.data()});
  return outputs;
}

// Fills `inputs` for the operation, and `wide` for the same operation in float32.
void make_inputs(const Operation& operation, const std::vector<Values>& values,
                 std::vector<Bytes>& inputs, std::vector<Bytes>& wide) {
  for (size_t i = 0; i < operation.inputs.size(); ++i) {
    const rt_tensor_desc& tensor = operation.inputs[i];
    inputs.push_back(plugins::conformance::make_values(tensor, values[i]));
    wide.push_back(is_narrow(tensor.dtype) ? widen(tensor.dtype, inputs.back()) : inputs.back());
  }
}

void expect_rounded_float32(const Case& c) {
  std::vector<Bytes> inputs, wide;
  Bytes saved, wide_saved;
  if (c.forward) {
    make_inputs(*c.forward, c.forward_inputs, inputs, wide);
    run_on_bytes(*c.forward, inputs, saved);
    run_on_bytes(with_float32(*c.forward), wide, wide_saved);
    EXPECT_EQ(saved, wide_saved) << c.name;
    inputs.clear();
    wide.clear();
  }
  make_inputs(c.operation, c.inputs, inputs, wide);
  const std::vector<Bytes> actual = run_on_bytes(c.operation, inputs, saved);
  const std::vector<Bytes> expected = run_on_bytes(with_float32(c.operation), wide, wide_saved);
  for (size_t j = 0; j < actual.size(); ++j) {
    const rt_dtype dtype = c.operation.outputs[j].dtype;
    EXPECT_EQ(actual[j], is_narrow(dtype) ? round_to(dtype, expected[j]) : expected[j])
        << c.name << ", output " << j;
  }
}

TEST(SixteenBits, AreTheKernelsOnFloat32Rounded) {
  std::set<std::string> operations;
  for (const Case& c : plugins::conformance::all_cases()) {
    // Casts from and to float64 do not go through float32.
    if (!is_narrow(c.dtype) || c.operation.name == RT_OP_CAST) continue;
    expect_rounded_float32(c);
    operations.insert(c.operation.name);
  }
  const auto is_narrow_row = [](const rt::sdk::OperandDefinition& row) {
    return !row.is(rt::sdk::OperandDefinition::kWide | rt::sdk::OperandDefinition::kIndex |
                   rt::sdk::OperandDefinition::kCounter);
  };
  for (const std::string& name : operation_names()) {
    const rt::sdk::Definition* const found = rt::sdk::find_definition(name);
    ASSERT_NE(found, nullptr) << name << " needs a row in rt/sdk/definitions";
    const rt::sdk::Definition& row = *found;
    const bool narrow = std::any_of(row.inputs.begin(), row.inputs.end(), is_narrow_row) ||
                        std::any_of(row.outputs.begin(), row.outputs.end(), is_narrow_row);
    EXPECT_EQ(operations.contains(name), narrow && name != RT_OP_CAST)
        << name << ": are there cases in plugins/conformance/cases_*.cpp?";
  }
}

TEST(SixteenBits, EveryCaseHasOperandsOfItsType) {
  for (const Case& c : plugins::conformance::all_cases()) {
    const auto own = [&](const rt_tensor_desc& t) { return t.dtype == c.dtype; };
    EXPECT_TRUE(std::any_of(c.operation.inputs.begin(), c.operation.inputs.end(), own) ||
                std::any_of(c.operation.outputs.begin(), c.operation.outputs.end(), own))
        << c.name;
  }
}

uint16_t cast(double value, rt_dtype to) {
  Operation op;
  op.name = RT_OP_CAST;
  op.inputs = {plugins::host::make_tensor_desc(RT_FLOAT64, {1})};
  op.outputs = {plugins::host::make_tensor_desc(to, {1})};
  Bytes none;
  return elements<uint16_t>(run_on_bytes(op, {bytes_of<double>({value})}, none).at(0)).at(0);
}

// The nearest float32 of each value below is halfway between two 16-bit numbers; the value itself
// is not.
TEST(SixteenBits, CastFromFloat64RoundsOnce) {
  EXPECT_EQ(cast(1.0 + 0x1p-8, RT_BFLOAT16), 0x3f80);  // a tie, rounded to even
  EXPECT_EQ(cast(1.0 + 0x1p-8 + 0x1p-40, RT_BFLOAT16), 0x3f81);
  EXPECT_EQ(cast(-(1.0 + 0x1p-8 + 0x1p-40), RT_BFLOAT16), 0xbf81);
  EXPECT_EQ(cast(1.0 + 3 * 0x1p-8 - 0x1p-40, RT_BFLOAT16), 0x3f81);
  EXPECT_EQ(cast(1.0 + 0x1p-11 + 0x1p-40, RT_FLOAT16), 0x3c01);
  EXPECT_EQ(cast(1e300, RT_FLOAT16), 0x7c00);
  EXPECT_EQ(cast(-1e300, RT_BFLOAT16), 0xff80);
  EXPECT_EQ(cast(-std::numeric_limits<double>::infinity(), RT_FLOAT16), 0xfc00);
  EXPECT_TRUE(std::isnan(rt::sdk::from_float16(cast(std::nan(""), RT_FLOAT16))));
}

}  // namespace
}  // namespace backends::reference::testing
