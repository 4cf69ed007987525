// rotary, in float32 and bfloat16.
#include <algorithm>

#include "backends/cpu/bfloat16/operand.h"
#include "backends/cpu/native.h"
#include "backends/cpu/parallel.h"
#include "rt/sdk/rotary.h"

namespace backends::cpu {
namespace {

std::unique_ptr<Plan> make_rotary(const NativeContext& context, const Operation& op) {
  const bool narrow = is_narrow(op);
  const auto s = rt::sdk::rotary_shape(op, narrow ? RT_BFLOAT16 : RT_FLOAT32, RT_FLOAT32);
  const int64_t columns = s.heads * s.width, buffer = narrow ? columns + 16 : 0;
  const int threads = context.engine.threads();
  auto plan = make_plan(
      context, "native:rotary", [=, &kernel = context.engine.kernels()](const rt_launch& l) {
        const Operand x(kernel, l.inputs[0], narrow), y(kernel, l.outputs[0], narrow);
        parallel_parts(threads, s.rows, kElementGrain / (columns + 1) + 1, 1,
                       [&](int part, int64_t begin, int64_t end) {
                         float* const values = static_cast<float*>(l.workspace) + part * buffer;
                         for (int64_t row = begin; row < end; ++row) {
                           const int64_t at = row * columns;
                           float* const to = y.write(at, values);
                           kernel.rotate_row(x.read(at, columns, values),
                                             input<float>(l, 1) + row % s.turn_rows * 2 * s.half,
                                             s.heads, s.width, s.half, s.inverse, to);
                           y.written(at, columns, to, {}, l.inputs);
                         }
                       });
      });
  plan->edit().workspace_bytes = static_cast<uint64_t>(threads * buffer) * sizeof(float);
  plan->edit().in_place[0] = 0x1;
  return plan;
}

constexpr NativeKernel kRotaryKernels[] = {
    {RT_OP_ROTARY, LayoutRule::kCanonical, make_rotary, NativeKernel::kBfloat16},
};

}  // namespace

KernelTable rotary_kernels() { return {kRotaryKernels, std::size(kRotaryKernels)}; }

}  // namespace backends::cpu
