// gated_activation and its gradient, in float32 and bfloat16.
#include <algorithm>

#include "backends/cpu/bfloat16/operand.h"
#include "backends/cpu/native.h"
#include "backends/cpu/parallel.h"
#include "rt/sdk/elementwise.h"

namespace backends::cpu {
namespace {

constexpr int64_t kGatePiece = 2048;  // elements that are widened at a time
constexpr int64_t kGateGrain =
    kElementGrain / 4;  // an element costs several times as much as a sum

// Calls body(first element, count) for pieces of `count` elements, in parallel.
template <typename Body>
void each_piece(int threads, int64_t count, Body&& body) {
  parallel_parts(threads, count, kGateGrain, 32, [&](int, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kGatePiece) body(i, std::min(kGatePiece, end - i));
  });
}

std::unique_ptr<Plan> make_gated_activation(const NativeContext& context, const Operation& op) {
  const auto s = rt::sdk::gated_activation_shape(op, is_narrow(op) ? RT_BFLOAT16 : RT_FLOAT32);
  const auto function = static_cast<int32_t>(s.function);
  auto plan = make_plan(context, "native:gated_activation",
                        [=, narrow = is_narrow(op), threads = context.engine.threads(),
                         &kernel = context.engine.kernels()](const rt_launch& l) {
                          const Operand gate(kernel, l.inputs[0], narrow),
                              up(kernel, l.inputs[1], narrow), y(kernel, l.outputs[0], narrow);
                          each_piece(threads, s.count, [&](int64_t i, int64_t n) {
                            alignas(64) float first[kGatePiece], second[kGatePiece];
                            float* const to = y.write(i, first);
                            kernel.gated_activation(function, gate.read(i, n, first),
                                                    up.read(i, n, second), to, n);
                            y.written(i, n, to, {}, l.inputs);
                          });
                        });
  plan->edit().in_place[0] = 0x3;
  return plan;
}

std::unique_ptr<Plan> make_gated_activation_backward(const NativeContext& context,
                                                     const Operation& op) {
  const auto s =
      rt::sdk::gated_activation_backward_shape(op, is_narrow(op) ? RT_BFLOAT16 : RT_FLOAT32);
  const auto function = static_cast<int32_t>(s.function);
  auto plan = make_plan(
      context, "native:gated_activation_backward",
      [=, narrow = is_narrow(op), threads = context.engine.threads(),
       &kernel = context.engine.kernels()](const rt_launch& l) {
        const Operand dy(kernel, l.inputs[0], narrow), gate(kernel, l.inputs[1], narrow),
            up(kernel, l.inputs[2], narrow), dgate(kernel, l.outputs[0], narrow),
            dup(kernel, l.outputs[1], narrow);
        each_piece(threads, s.count, [&](int64_t i, int64_t n) {
          alignas(64) float first[kGatePiece], second[kGatePiece], third[kGatePiece];
          float *const to_gate = dgate.write(i, first), *const to_up = dup.write(i, second);
          kernel.gated_activation_backward(function, dy.read(i, n, first), gate.read(i, n, second),
                                           up.read(i, n, third), to_gate, to_up, n);
          dgate.written(i, n, to_gate, {}, l.inputs);
          dup.written(i, n, to_up, {}, l.inputs);
        });
      });
  plan->edit().in_place = {0x7, 0x7};
  return plan;
}

constexpr NativeKernel kGateKernels[] = {
    {RT_OP_GATED_ACTIVATION, LayoutRule::kCanonical, make_gated_activation,
     NativeKernel::kBfloat16},
    {RT_OP_GATED_ACTIVATION_BACKWARD, LayoutRule::kCanonical, make_gated_activation_backward,
     NativeKernel::kBfloat16},
};

}  // namespace

KernelTable gate_kernels() { return {kGateKernels, std::size(kGateKernels)}; }

}  // namespace backends::cpu
