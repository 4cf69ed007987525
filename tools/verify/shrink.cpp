// Cuts rows off a wrong operation and keeps the cut while it stays wrong.
#include "tools/verify/shrink.h"

#include <algorithm>

#include "plugins/host/error.h"
#include "rt/operations.h"
#include "rt/sdk/definitions.h"
#include "runtime/error.h"
#include "tools/verify/candidates.h"

namespace runtime::verify {

namespace {

using plugins::host::Operation;

bool is_transposed(const Operation& operation) {
  return attribute<int64_t>(operation, RT_ATTR_TRANSPOSE_A).value_or(0) != 0;
}

// Returns whether the input has rows of the batch, as the operands of post-operations have.
// Otherwise its first dimension may have the same size by chance. The product of transposed
// operands is a sum over their rows; matrices of a batch are rows, too.
bool input_has_rows(const Operation& operation, size_t input) {
  const rt::sdk::Definition* const definition = rt::sdk::find_definition(operation.name);
  const auto* const row = definition != nullptr ? definition->input(input) : nullptr;
  if (row == nullptr) return true;
  const bool matrices = definition->attributes.find(RT_ATTR_TRANSPOSE_A) != nullptr &&
                        operation.inputs[input].rank > 2;
  return row->is(rt::sdk::OperandDefinition::kRows) || is_transposed(operation) || matrices;
}

// Returns whether the output has rows; gradients of weights and statistics have none.
bool output_has_rows(const Operation& operation, size_t output) {
  const rt::sdk::Definition* const definition = rt::sdk::find_definition(operation.name);
  if (is_transposed(operation) && operation.inputs[0].rank == 2) return false;
  return definition == nullptr || output >= definition->outputs.size() ||
         definition->outputs[output].is(rt::sdk::OperandDefinition::kRows);
}

void cut(rt_tensor_desc& description, data::HostTensor* tensor, int64_t first, int64_t keep) {
  const int64_t rows = description.dims[0];
  description.dims[0] = keep;
  if (tensor == nullptr) return;
  const auto row = static_cast<int64_t>(tensor->bytes.size()) / rows;
  tensor->bytes = {tensor->bytes.begin() + first * row,
                   tensor->bytes.begin() + (first + keep) * row};
  tensor->dims[0] = keep;
}

// Keeps `keep` of `rows` rows. Returns false if no operand has that many rows.
bool cut_rows(Operation& operation, HostTensors& inputs, int64_t rows, int64_t first,
              int64_t keep) {
  bool any = false;
  const auto fits = [&](const rt_tensor_desc& t) { return t.rank > 0 && t.dims[0] == rows; };
  std::vector<bool> is_bias(operation.inputs.size(), false);
  for (const plugins::host::PostOp& post : operation.post_ops) {
    if (post.kind == RT_POST_BIAS && post.operand >= 0) is_bias[post.operand] = true;
  }
  for (size_t i = 0; i < operation.inputs.size(); ++i) {
    if (!fits(operation.inputs[i]) || !input_has_rows(operation, i) || is_bias[i]) continue;
    cut(operation.inputs[i], &inputs[i], first, keep);
    any = true;
  }
  for (size_t j = 0; j < operation.outputs.size(); ++j) {
    if (fits(operation.outputs[j]) && output_has_rows(operation, j))
      cut(operation.outputs[j], nullptr, first, keep);
  }
  return any;
}

bool is_offered(plugins::host::Device& device, const IsolatedOperation& isolated) {
  const std::vector<Candidate> candidates = list_candidates(device, isolated, true, nullptr);
  return std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
    return is_same_candidate(candidate, isolated);
  });
}

// Tries the operation with some of the rows. Returns nothing if the device computes it right, or if
// it is not a valid operation any more.
std::optional<Reproduced> reproduce_part(const Judge& judge,
                                         const std::shared_ptr<plugins::host::Device>& device,
                                         const IsolatedOperation& isolated, int64_t first,
                                         int64_t keep) {
  const auto part = with_rows(isolated, first, keep);
  if (!part) return std::nullopt;
  try {
    judge.check(*part);
    if (!is_offered(*device, *part)) return std::nullopt;
    return reproduce(judge, device, *part);
  } catch (const DataError&) {
    return std::nullopt;
  } catch (const plugins::host::Error& error) {
    if (error.scope() != RT_SCOPE_OPERATION) throw;
    return std::nullopt;
  }
}

}  // namespace

std::optional<Reproduced> reproduce(const Judge& judge,
                                    const std::shared_ptr<plugins::host::Device>& device,
                                    IsolatedOperation isolated) {
  Reproduced r;
  r.actual = run_isolated(device, isolated).outputs;
  r.expected = judge.expect(isolated);
  const bool finite = has_finite_operands(isolated);
  r.bounds = judge.bounds(isolated, r.expected, claimed_tolerance(*device, isolated.operation));
  r.verdict = compare_all(r.actual, r.expected, r.bounds, finite);
  r.isolated = std::move(isolated);
  if (r.verdict.right) return std::nullopt;
  return r;
}

std::optional<IsolatedOperation> with_rows(const IsolatedOperation& isolated, int64_t first,
                                           int64_t keep) {
  IsolatedOperation part = isolated;
  if (part.operation.inputs.empty() || part.operation.inputs[0].rank == 0) return std::nullopt;
  const int64_t rows = part.operation.inputs[0].dims[0];
  if (rows < 2 || keep < 1 || first + keep > rows) return std::nullopt;
  if (!cut_rows(part.operation, part.inputs, rows, first, keep)) return std::nullopt;
  if (part.forward) cut_rows(*part.forward, part.forward_inputs, rows, first, keep);
  return part;
}

Reproduced shrink_rows(const Judge& judge, const std::shared_ptr<plugins::host::Device>& device,
                       Reproduced reproduced) {
  while (true) {
    const auto& inputs = reproduced.isolated.operation.inputs;
    const int64_t rows = inputs.empty() || inputs[0].rank == 0 ? 0 : inputs[0].dims[0];
    const int64_t half = rows / 2;
    auto smaller = reproduce_part(judge, device, reproduced.isolated, 0, half);
    if (!smaller) smaller = reproduce_part(judge, device, reproduced.isolated, half, rows - half);
    if (!smaller) return reproduced;
    reproduced = std::move(*smaller);
  }
}

}  // namespace runtime::verify
