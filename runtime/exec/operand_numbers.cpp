// Draws numbers once for each type and range, and repeats them over the operands.
#include "runtime/exec/operand_numbers.h"

#include <algorithm>
#include <random>

#include "rt/sdk/definitions.h"
#include "runtime/exec/encode.h"

namespace runtime::exec {

namespace {

using plugins::host::Operation;
using rt::sdk::Definition;
using rt::sdk::OperandDefinition;

constexpr size_t kBlockElements = 65521;  // the largest prime number below 2^16
// Positive numbers are not too small to divide by.
constexpr NumberRange kOfBothSigns{-1, 1}, kPositive{0.25, 1}, kFirst{1, 1}, kZero{0, 0};

bool is_floating(rt_dtype dtype) {
  return dtype == RT_FLOAT32 || dtype == RT_FLOAT64 || dtype == RT_FLOAT16 || dtype == RT_BFLOAT16;
}

// The rows of the table, or of its gradient; without a table the classes, which are the last
// dimension of the logits.
int64_t index_limit(const Operation& operation, const Definition& definition) {
  constexpr std::string_view kTable = "[V,D]";
  for (size_t i = 0; i < operation.inputs.size(); ++i) {
    const OperandDefinition* const row = definition.input(i);
    if (row != nullptr && row->dims == kTable) return operation.inputs[i].dims[0];
  }
  const OperandDefinition* const first = definition.output(0, operation.inputs.size());
  if (first != nullptr && first->dims == kTable) return operation.outputs[0].dims[0];
  const rt_tensor_desc& logits = operation.inputs[0];
  return logits.rank > 0 ? logits.dims[logits.rank - 1] : 0;
}

}  // namespace

NumberRange range_of(const Operation& operation, size_t input) {
  const rt_dtype dtype = operation.inputs[input].dtype;
  const Definition* const definition = rt::sdk::find_definition(operation.name);
  const OperandDefinition* const row = definition == nullptr ? nullptr : definition->input(input);
  if (is_floating(dtype)) {
    const bool wide = row != nullptr && row->is(OperandDefinition::kWide);
    return wide ? kPositive : kOfBothSigns;
  }
  if (row == nullptr) return kZero;
  if (row->is(OperandDefinition::kCounter)) return kFirst;
  if (row->is(OperandDefinition::kIndex))
    return {0, static_cast<double>(std::max<int64_t>(index_limit(operation, *definition), 1))};
  return dtype == RT_UINT8 ? NumberRange{0, 256} : kZero;
}

const std::vector<std::byte>& OperandNumbers::block(rt_dtype dtype, const NumberRange& range) {
  std::vector<std::byte>& elements = blocks_[{dtype, range.low, range.high}];
  if (!elements.empty()) return elements;
  std::mt19937 random(static_cast<uint32_t>(dtype));  // the same in every run
  std::vector<double> numbers(kBlockElements);
  const double width = (range.high - range.low) / 0x1p32;
  for (double& x : numbers) x = range.low + width * static_cast<double>(random());
  elements = encode(numbers, dtype);
  return elements;
}

void OperandNumbers::fill(plugins::host::Stream& stream, void* address, uint64_t bytes,
                          rt_dtype dtype, const NumberRange& range) {
  if (range.high == 0 && range.low == 0) return stream.fill(address, 0, bytes);
  const std::vector<std::byte>& elements = block(dtype, range);
  auto* const begin = static_cast<std::byte*>(address);
  uint64_t filled = std::min<uint64_t>(bytes, elements.size());
  stream.copy(begin, elements.data(), filled);
  while (filled < bytes) {  // whole blocks, and the last one as far as it goes
    const uint64_t more = std::min(filled, bytes - filled);
    stream.copy(begin + filled, begin, more);
    filled += more;
  }
}

}  // namespace runtime::exec
