// Widens the operands of a launch into the workspace, runs the float32 plan, and rounds the
// results.
#include "backends/cpu/bfloat16/widened.h"

#include <algorithm>
#include <array>

#include "backends/cpu/parallel.h"

namespace backends::cpu {

WideOperation::WideOperation(const Operation& op) : desc_(op.desc()) {
  for (uint32_t i = 0; i < op.input_count(); ++i) tensors_.push_back(op.input(i));
  for (uint32_t i = 0; i < op.output_count(); ++i) tensors_.push_back(op.output(i));
  for (rt_tensor_desc& tensor : tensors_) {
    if (tensor.dtype == RT_BFLOAT16) tensor.dtype = RT_FLOAT32;
    tensor.layout = RT_LAYOUT_CANONICAL;
    addresses_.push_back(&tensor);
  }
  desc_.inputs = addresses_.data();
  desc_.outputs = addresses_.data() + op.input_count();
}

WidenedPlan::Copy WidenedPlan::place(uint32_t index, const rt_tensor_desc& tensor) {
  const int64_t count = rt::sdk::element_count(tensor);
  const uint64_t offset = (info_.workspace_bytes + kAlignment - 1) / kAlignment * kAlignment;
  info_.workspace_bytes = offset + static_cast<uint64_t>(count) * sizeof(float);
  return {index, count, offset};
}

WidenedPlan::WidenedPlan(const Engine& engine, const Operation& op, std::unique_ptr<Plan> wide)
    : engine_(engine), wide_(std::move(wide)) {
  info_ = wide_->info();
  info_.implementation = "bfloat16:widened:" + info_.implementation;
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    if (op.input(i).dtype == RT_BFLOAT16) inputs_.push_back(place(i, op.input(i)));
  }
  for (uint32_t j = 0; j < op.output_count(); ++j) {
    if (op.output(j).dtype == RT_BFLOAT16) outputs_.push_back(place(j, op.output(j)));
    for (uint32_t i = 0; i < op.input_count(); ++i) {
      if (op.input(i).dtype != op.output(j).dtype) info_.in_place[j] &= ~(1u << i);
    }
  }
}

void WidenedPlan::launch(const rt_launch& launch) {
  const kernels::Table& kernel = engine_.kernels();
  std::array<const void*, RT_MAX_INPUTS> inputs{};
  std::array<void*, RT_MAX_OUTPUTS> outputs{};
  std::copy_n(launch.inputs, launch.input_count, inputs.begin());
  std::copy_n(launch.outputs, launch.output_count, outputs.begin());
  const auto copy = [&](const Copy& c) {
    return reinterpret_cast<float*>(static_cast<char*>(launch.workspace) + c.offset);
  };
  for (const Copy& c : inputs_) {
    const auto* from = static_cast<const uint16_t*>(inputs[c.index]);
    parallel_parts(engine_.threads(), c.count, kElementGrain, 64,
                   [&](int, int64_t b, int64_t e) { kernel.widen(from + b, copy(c) + b, e - b); });
    inputs[c.index] = copy(c);
  }
  for (const Copy& c : outputs_) outputs[c.index] = copy(c);
  rt_launch inner = launch;
  inner.inputs = inputs.data();
  inner.outputs = outputs.data();
  wide_->launch(inner);
  for (const Copy& c : outputs_) {
    auto* to = static_cast<uint16_t*>(launch.outputs[c.index]);
    parallel_parts(engine_.threads(), c.count, kElementGrain, 64,
                   [&](int, int64_t b, int64_t e) { kernel.narrow(copy(c) + b, to + b, e - b); });
  }
}

}  // namespace backends::cpu
