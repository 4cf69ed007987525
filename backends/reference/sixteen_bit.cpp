#include "backends/reference/sixteen_bit.h"

#include <algorithm>

#include "backends/reference/check.h"

namespace backends::reference {

using rt::sdk::Definition;
using rt::sdk::format;
using rt::sdk::is_sixteen_bit;
using rt::sdk::OperandDefinition;

namespace {

bool is_floating(rt_dtype dtype) {
  return dtype == RT_FLOAT32 || dtype == RT_FLOAT64 || is_sixteen_bit(dtype);
}

struct Operand {
  bool output;
  uint32_t index;
  const rt_tensor_desc& tensor;

  std::string text() const { return format("%s %u", output ? "output" : "operand", index); }
  int32_t reason() const { return static_cast<int32_t>(output ? 100 + index : index); }
};

std::vector<Operand> operands_of(const Operation& op) {
  std::vector<Operand> all;
  for (uint32_t i = 0; i < op.input_count(); ++i) all.push_back({false, i, op.input(i)});
  for (uint32_t i = 0; i < op.output_count(); ++i) all.push_back({true, i, op.output(i)});
  return all;
}

// One operand in 16 bits, and the place of its float32 copy in the workspace.
struct Slot {
  bool output, brain;
  uint32_t index;
  int64_t count;
  uint64_t offset;

  float* floats(const Buffers& b) const {
    return reinterpret_cast<float*>(b.scratch<char>() + offset);
  }
  const float* widen(const Buffers& b) const {
    const uint16_t* bits = b.input<uint16_t>(index);
    std::transform(bits, bits + count, floats(b),
                   brain ? rt::sdk::from_bfloat16 : rt::sdk::from_float16);
    return floats(b);
  }
  void round(const Buffers& b) const {
    const float* values = floats(b);
    std::transform(values, values + count, b.output<uint16_t>(index),
                   brain ? rt::sdk::to_bfloat16 : rt::sdk::to_float16);
  }
};

// Whether a product of matrices in 16 bits has its results in float32. Its results and the operands
// of its post-operations are then in float32.
bool has_wide_results(const Operation& op) {
  return op.is(RT_OP_MATMUL) && op.output_count() > 0 && op.output(0).dtype == RT_FLOAT32;
}

// Whether the operand is float32 although others are in 16 bits. Those that have no row are of
// post-operations.
bool is_wide(const Operation& op, const Definition& definition, const Operand& operand) {
  const OperandDefinition* const row = operand.output
                                           ? definition.output(operand.index, op.own_input_count())
                                           : definition.input(operand.index);
  if (has_wide_results(op)) return operand.output || row == nullptr;
  return row != nullptr && row->is(OperandDefinition::kWide);
}

// Returns the 16-bit type of the operands. Fails if a floating operand has another type than
// `definition` demands.
rt_dtype check_types(const Operation& op, const Definition& definition) {
  const auto wide = [&](const Operand& o) { return is_wide(op, definition, o); };
  rt_dtype type = 0;
  const std::vector<Operand> operands = operands_of(op);
  for (const Operand& o : operands) {
    if (type == 0 && !wide(o) && is_sixteen_bit(o.tensor.dtype)) type = o.tensor.dtype;
  }
  for (const Operand& o : operands) {
    const rt_dtype expected = wide(o) ? RT_FLOAT32 : type;
    if (!is_floating(o.tensor.dtype) || expected == 0 || o.tensor.dtype == expected) continue;
    op.fail(o.text() + " is " + rt::sdk::to_string(o.tensor) + ", expected " +
            rt::sdk::to_string(expected) +
            (wide(o) ? ", which it stays beside operands in 16 bits; cast it"
                     : " as the other operands; cast it"));
  }
  return type;
}

// The kernel of the same operation with float32 instead of `type`.
Kernel make_wide(const Operation& op, rt_dtype type) {
  std::vector<rt_tensor_desc> tensors;
  for (const Operand& operand : operands_of(op)) {
    tensors.push_back(operand.tensor);
    if (operand.tensor.dtype == type) tensors.back().dtype = RT_FLOAT32;
  }
  std::vector<const rt_tensor_desc*> addresses;
  for (const rt_tensor_desc& tensor : tensors) addresses.push_back(&tensor);
  rt_op_desc desc = op.desc();
  desc.inputs = addresses.data();
  desc.outputs = addresses.data() + op.input_count();
  try {
    return make_kernel(Operation(&desc));
  } catch (const Refusal&) {
    throw;
  } catch (const rt::sdk::Error& error) {
    throw rt::sdk::Error(error.code(), std::string(error.what()) + " (operands in " +
                                           rt::sdk::to_string(type) + " count as float32 here)");
  }
}

// Places float32 copies of the operands of type `type` behind the first `begin` bytes of the
// workspace. `end` receives the size of the workspace.
std::vector<Slot> place(const Operation& op, rt_dtype type, uint64_t begin, uint64_t& end) {
  constexpr uint64_t kAlignment = 64;
  std::vector<Slot> slots;
  end = begin;
  for (const Operand& operand : operands_of(op)) {
    if (operand.tensor.dtype != type) continue;
    const int64_t count = rt::sdk::element_count(operand.tensor);
    const uint64_t offset = (end + kAlignment - 1) / kAlignment * kAlignment;
    slots.push_back({operand.output, type == RT_BFLOAT16, operand.index, count, offset});
    end = offset + static_cast<uint64_t>(count) * sizeof(float);
  }
  return slots;
}

}  // namespace

bool has_sixteen_bit_operands(const Operation& op) {
  const std::vector<Operand> operands = operands_of(op);
  return std::any_of(operands.begin(), operands.end(),
                     [](const Operand& o) { return is_sixteen_bit(o.tensor.dtype); });
}

Kernel make_sixteen_bit(const Operation& op, const Definition& definition) {
  if (!has_sixteen_bit_form(definition)) refuse_sixteen_bit(op);
  const rt_dtype type = check_types(op, definition);
  Kernel kernel = make_wide(op, type);
  const std::vector<Slot> slots = place(op, type, kernel.workspace_bytes, kernel.workspace_bytes);
  kernel.run = [inner = std::move(kernel.run), slots, inputs = op.input_count(),
                outputs = op.output_count()](const Buffers& b) {
    std::array<const void*, RT_MAX_INPUTS> in{};
    std::array<void*, RT_MAX_OUTPUTS> out{};
    std::copy_n(b.inputs, inputs, in.begin());
    std::copy_n(b.outputs, outputs, out.begin());
    for (const Slot& slot : slots) {
      if (slot.output) {
        out[slot.index] = slot.floats(b);
      } else {
        in[slot.index] = slot.widen(b);
      }
    }
    inner({in.data(), out.data(), b.workspace, b.saved});
    for (const Slot& slot : slots) {
      if (slot.output) slot.round(b);
    }
  };
  return kernel;
}

void refuse_sixteen_bit(const Operation& op) {
  for (const Operand& operand : operands_of(op)) {
    if (!is_sixteen_bit(operand.tensor.dtype)) continue;
    throw Refusal(operand.reason(),
                  std::string(op.name()) + ": " + operand.text() + " is " +
                      rt::sdk::to_string(operand.tensor.dtype) +
                      "; this operation has no form in 16 bits, cast the operand to float32");
  }
  op.fail("has no operand in 16 bits");
}

}  // namespace backends::reference
