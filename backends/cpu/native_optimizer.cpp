// sgd and adamw. Both update in place. Settings that change from step to step are read from memory
// at launch.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/native.h"
#include "backends/cpu/parallel.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

// Whether the operation has the output `narrow`, a copy of the parameter in bfloat16, behind
// `outputs` others.
bool has_narrow(const Operation& op, uint32_t outputs) {
  return op.output_count() == outputs + 1 && op.output(outputs).dtype == RT_BFLOAT16;
}

// Inputs other than lr (2), scale (3) and step (6) have the shape of the parameter.
void check_update(const Operation& op, uint32_t inputs, uint32_t outputs) {
  expect_counts(op, inputs, outputs + (has_narrow(op, outputs) ? 1 : 0));
  for (uint32_t i = 0; i < inputs; ++i) {
    if (i == 6) continue;  // make_adamw() checks the step
    expect_dtype(op, op.input(i), RT_FLOAT32, ("input " + std::to_string(i)).c_str());
    if (i == 2 || i == 3) {
      expect_elements(op, op.input(i), 1, i == 2 ? "lr" : "scale");
    } else {
      expect_same_dims(op, op.input(i), op.input(0));
    }
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) expect_same_dims(op, op.output(i), op.input(0));
}

// Handles a step without an update (scale 0): every output that does not share the memory of its
// input becomes a copy of it. Returns false, having done nothing, if there is an update.
bool left_out(const rt_launch& l, int64_t count, uint32_t outputs) {
  if (*input<float>(l, 3) != 0) return false;
  for (uint32_t i = 0; i < outputs; ++i)
    std::memmove(l.outputs[i], l.inputs[i == 0 ? 0 : 3 + i], count * sizeof(float));
  return true;
}

// Elements that are updated before their copies in bfloat16 are made, so that they are still in the
// cache.
constexpr int64_t kPiece = 2048;

// Updates all elements by update(begin, end) in several threads. If there is an output `narrow`,
// its number is `outputs`, and it becomes the rounded output 0.
template <typename Update>
void run_update(const NativeContext& context, const rt_launch& l, int64_t count, int64_t grain,
                uint32_t outputs, Update&& update) {
  const kernels::Table& kernel = context.engine.kernels();
  const bool left = left_out(l, count, outputs), narrow = l.output_count > outputs;
  if (left && !narrow) return;
  parallel_parts(context.engine.threads(), count, grain, 32, [&](int, int64_t b, int64_t e) {
    if (!narrow) return update(b, e);
    for (int64_t i = b; i < e; i += kPiece) {
      const int64_t end = std::min(e, i + kPiece);
      if (!left) update(i, end);
      kernel.narrow(output<float>(l, 0) + i, output<uint16_t>(l, outputs) + i, end - i);
    }
  });
}

std::unique_ptr<Plan> make_sgd(const NativeContext& context, const Operation& op) {
  const auto momentum = static_cast<float>(op.number(RT_ATTR_MOMENTUM, 0.0));
  const bool with_velocity = momentum != 0.0f;
  check_update(op, with_velocity ? 5 : 4, with_velocity ? 2 : 1);
  const int64_t count = rt::sdk::element_count(op.input(0));
  const auto decay = static_cast<float>(op.number(RT_ATTR_WEIGHT_DECAY, 0.0));
  const bool nesterov = op.integer(RT_ATTR_NESTEROV, 0) != 0;
  auto plan = make_plan(
      context, with_velocity ? "native:sgd_momentum" : "native:sgd",
      [=, &kernel = context.engine.kernels()](const rt_launch& l) {
        const kernels::Sgd s{*input<float>(l, 2), *input<float>(l, 3), decay, momentum, nesterov};
        const float *param = input<float>(l, 0), *grad = input<float>(l, 1);
        const uint32_t outputs = with_velocity ? 2 : 1;
        run_update(context, l, count, kElementGrain, outputs, [&](int64_t b, int64_t e) {
          if (with_velocity) {
            kernel.sgd_momentum(s, param + b, grad + b, input<float>(l, 4) + b,
                                output<float>(l, 0) + b, output<float>(l, 1) + b, e - b);
          } else {
            kernel.sgd(s, param + b, grad + b, output<float>(l, 0) + b, e - b);
          }
        });
      });
  plan->edit().in_place[0] = 1u << 0;
  plan->edit().in_place[1] = with_velocity ? 1u << 4 : 0;
  return plan;
}

std::unique_ptr<Plan> make_adamw(const NativeContext& context, const Operation& op) {
  check_update(op, 7, 3);
  expect_dtype(op, op.input(6), RT_INT64, "step");
  expect_elements(op, op.input(6), 1, "step");
  const int64_t count = rt::sdk::element_count(op.input(0));
  const double beta1 = op.number(RT_ATTR_BETA1), beta2 = op.number(RT_ATTR_BETA2);
  const auto epsilon = static_cast<float>(op.number(RT_ATTR_EPSILON));
  const double decay = op.number(RT_ATTR_WEIGHT_DECAY, 0.0);
  auto plan = make_plan(
      context, "native:adamw", [=, &kernel = context.engine.kernels()](const rt_launch& l) {
        const auto step = static_cast<double>(*input<int64_t>(l, 6));
        const float lr = *input<float>(l, 2);
        const kernels::AdamW s{lr,
                               *input<float>(l, 3),
                               static_cast<float>(beta1),
                               static_cast<float>(beta2),
                               epsilon,
                               static_cast<float>(1.0 - lr * decay),
                               static_cast<float>(1.0 - beta1),
                               static_cast<float>(1.0 - beta2),
                               static_cast<float>(1.0 / (1.0 - std::pow(beta1, step))),
                               static_cast<float>(1.0 / (1.0 - std::pow(beta2, step)))};
        run_update(context, l, count, kElementGrain / 2, 3, [&](int64_t b, int64_t e) {
          kernel.adamw(s, input<float>(l, 0) + b, input<float>(l, 1) + b, input<float>(l, 4) + b,
                       input<float>(l, 5) + b, output<float>(l, 0) + b, output<float>(l, 1) + b,
                       output<float>(l, 2) + b, e - b);
        });
      });
  plan->edit().in_place[0] = 1u << 0;
  plan->edit().in_place[1] = 1u << 4;
  plan->edit().in_place[2] = 1u << 5;
  return plan;
}

constexpr NativeKernel kKernels[] = {
    {RT_OP_SGD, LayoutRule::kCanonical, make_sgd, NativeKernel::kBfloat16},
    {RT_OP_ADAMW, LayoutRule::kCanonical, make_adamw, NativeKernel::kBfloat16},
};

}  // namespace

KernelTable optimizer_kernels() { return {kKernels, std::size(kKernels)}; }

}  // namespace backends::cpu
