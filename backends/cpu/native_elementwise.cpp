// activation, arithmetic, copies, scale and fill.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/native.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/post_chain.h"
#include "rt/operations.h"
#include "rt/sdk/elementwise.h"

namespace backends::cpu {
namespace {

using kernels::Binary;

// Elements of the buffer, the padding of a foreign layout included.
int64_t flat_count(const NativeContext& context, const rt_tensor_desc& tensor) {
  rt_tensor_desc fixed = tensor;
  if (fixed.layout == RT_LAYOUT_ANY) fixed.layout = RT_LAYOUT_CANONICAL;
  return static_cast<int64_t>(context.engine.layout_bytes(fixed) /
                              rt::sdk::dtype_bytes(tensor.dtype));
}

int32_t read_function(const Operation& op) {
  const int64_t function = op.integer(RT_ATTR_FUNCTION);
  rt::sdk::expect_activation(op, function);
  return static_cast<int32_t>(function);
}

// The other functions cost several times as much per element as ReLU.
int64_t activation_grain(int32_t function) {
  return function == RT_ACTIVATION_RELU ? kElementGrain : kElementGrain / 4;
}

std::unique_ptr<Plan> make_activation(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_float(op);
  expect_same_dims(op, op.input(0), op.output(0));
  const int32_t function = read_function(op);
  const int64_t count = flat_count(context, op.output(0));
  auto plan = make_plan(context, "native:activation",
                        [=, threads = context.engine.threads(),
                         &kernel = context.engine.kernels()](const rt_launch& l) {
                          const float* x = input<float>(l, 0);
                          float* y = output<float>(l, 0);
                          parallel_parts(threads, count, activation_grain(function), 16,
                                         [&](int, int64_t b, int64_t e) {
                                           kernel.activation(function, x + b, y + b, e - b);
                                         });
                        });
  plan->edit().in_place[0] = 0x1;
  return plan;
}

std::unique_ptr<Plan> make_activation_backward(const NativeContext& context, const Operation& op) {
  expect_counts(op, 2, 1);
  expect_float(op);
  expect_same_dims(op, op.input(0), op.output(0));
  expect_same_dims(op, op.input(1), op.output(0));
  const int32_t function = read_function(op);
  const int64_t count = flat_count(context, op.output(0));
  auto plan = make_plan(context, "native:activation_backward",
                        [=, threads = context.engine.threads(),
                         &kernel = context.engine.kernels()](const rt_launch& l) {
                          const float* dy = input<float>(l, 0);
                          const float* s = input<float>(l, 1);
                          float* dx = output<float>(l, 0);
                          parallel_parts(threads, count, activation_grain(function), 16,
                                         [&](int, int64_t b, int64_t e) {
                                           kernel.activation_backward(function, dy + b, s + b,
                                                                      dx + b, e - b);
                                         });
                        });
  plan->edit().in_place[0] = 0x3;
  return plan;
}

// The loops of a broadcast: the dims of the result, with neighbours merged where both operands
// allow it.
struct Broadcast {
  int32_t rank = 0;
  std::array<int64_t, RT_MAX_RANK> dims{}, a{}, b{};  // a, b: strides in elements; 0: repeated
  int64_t outer = 1;                                  // product of all dims but the last
};

int64_t operand_stride(const Operation& op, const rt_tensor_desc& operand, const rt_tensor_desc& c,
                       int32_t axis) {
  const int32_t own = axis - (c.rank - operand.rank);
  if (own < 0) return 0;
  if (operand.dims[own] != c.dims[axis] && operand.dims[own] != 1) {
    op.fail("cannot broadcast " + rt::sdk::to_string(operand) + " to " + rt::sdk::to_string(c));
  }
  if (operand.dims[own] == 1) return 0;
  int64_t stride = 1;
  for (int32_t i = own + 1; i < operand.rank; ++i) stride *= operand.dims[i];
  return stride;
}

Broadcast plan_broadcast(const Operation& op) {
  const rt_tensor_desc &a = op.input(0), &b = op.input(1), &c = op.output(0);
  if (a.rank > c.rank || b.rank > c.rank) op.fail("an operand has more dimensions than the result");
  Broadcast loops;
  for (int32_t axis = 0; axis < c.rank; ++axis) {
    const int64_t extent = c.dims[axis];
    const int64_t sa = operand_stride(op, a, c, axis), sb = operand_stride(op, b, c, axis);
    if (extent == 1) continue;
    const int32_t last = loops.rank - 1;
    if (last >= 0 && loops.a[last] == sa * extent && loops.b[last] == sb * extent) {
      loops.dims[last] *= extent, loops.a[last] = sa, loops.b[last] = sb;
    } else {
      loops.dims[loops.rank] = extent, loops.a[loops.rank] = sa, loops.b[loops.rank] = sb;
      ++loops.rank;
    }
  }
  if (loops.rank == 0) loops.rank = 1, loops.dims[0] = 1;
  for (int32_t i = 0; i + 1 < loops.rank; ++i) loops.outer *= loops.dims[i];
  return loops;
}

// Computes rows begin..end of the outer loops; `c` is dense.
void run_rows(const kernels::Table& kernel, const Broadcast& loops, Binary what, const float* a,
              const float* b, float* c, int64_t begin, int64_t end) {
  const int32_t last = loops.rank - 1;
  const int64_t length = loops.dims[last];
  for (int64_t row = begin; row < end; ++row) {
    int64_t rest = row, at_a = 0, at_b = 0;
    for (int32_t i = last - 1; i >= 0; --i) {
      const int64_t index = rest % loops.dims[i];
      rest /= loops.dims[i];
      at_a += index * loops.a[i], at_b += index * loops.b[i];
    }
    kernel.binary(what, a + at_a, loops.a[last], b + at_b, loops.b[last], c + row * length, length);
  }
}

template <Binary kWhat>
std::unique_ptr<Plan> make_binary(const NativeContext& context, const Operation& op) {
  expect_counts(op, 2, 1);
  expect_float(op);
  const Broadcast loops = plan_broadcast(op);
  const int64_t count = flat_count(context, op.output(0));
  const bool flat = loops.rank == 1 && loops.dims[0] > 1;
  const PostChain chain(op, context.engine.channel_order(op.output(0)));
  auto plan = make_plan(
      context, "native:arithmetic",
      [=, threads = context.engine.threads(),
       &kernel = context.engine.kernels()](const rt_launch& l) {
        const float *a = input<float>(l, 0), *b = input<float>(l, 1);
        float* c = output<float>(l, 0);
        if (flat) {
          parallel_parts(threads, count, kElementGrain, 16, [&](int, int64_t begin, int64_t end) {
            kernel.binary(kWhat, a + begin * loops.a[0], loops.a[0], b + begin * loops.b[0],
                          loops.b[0], c + begin, end - begin);
            chain.apply(kernel, c + begin, begin, end - begin, l.inputs);
          });
          return;
        }
        const int64_t length = loops.dims[loops.rank - 1];
        parallel_for(threads, loops.outer, kElementGrain / (length + 1) + 1,
                     [&](int64_t begin, int64_t end) {
                       run_rows(kernel, loops, kWhat, a, b, c, begin, end);
                       chain.apply(kernel, c + begin * length, begin * length,
                                   (end - begin) * length, l.inputs);
                     });
      });
  for (uint32_t i = 0; i < 2; ++i) {
    if (rt::sdk::same_dims(op.input(i), op.output(0))) plan->edit().in_place[0] |= 1u << i;
  }
  return plan;
}

std::unique_ptr<Plan> make_scale(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_float(op);
  expect_same_dims(op, op.input(0), op.output(0));
  const auto alpha = static_cast<float>(op.number(RT_ATTR_ALPHA, 1.0));
  const auto beta = static_cast<float>(op.number(RT_ATTR_BETA, 0.0));
  const int64_t count = rt::sdk::element_count(op.output(0));
  auto plan =
      make_plan(context, "native:scale",
                [=, threads = context.engine.threads(),
                 &kernel = context.engine.kernels()](const rt_launch& l) {
                  const float* x = input<float>(l, 0);
                  float* y = output<float>(l, 0);
                  parallel_parts(threads, count, kElementGrain, 16, [&](int, int64_t b, int64_t e) {
                    kernel.scale(x + b, alpha, beta, y + b, e - b);
                  });
                });
  plan->edit().in_place[0] = 0x1;
  return plan;
}

std::unique_ptr<Plan> make_copy(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_same_dims(op, op.input(0), op.output(0));
  expect_dtype(op, op.output(0), op.input(0).dtype, "output 0");
  const auto bytes = flat_count(context, op.output(0)) *
                     static_cast<int64_t>(rt::sdk::dtype_bytes(op.output(0).dtype));
  auto plan =
      make_plan(context, "native:copy",
                [=, threads = context.engine.threads(),
                 &kernel = context.engine.kernels()](const rt_launch& l) {
                  const char* x = input<char>(l, 0);
                  char* y = output<char>(l, 0);
                  if (x == y) return;
                  parallel_parts(threads, bytes, 1 << 17, 4096, [&](int, int64_t b, int64_t e) {
                    std::memcpy(y + b, x + b, static_cast<size_t>(e - b));
                  });
                });
  plan->edit().in_place[0] = 0x1;
  return plan;
}

template <typename T>
std::unique_ptr<Plan> make_fill_of(const NativeContext& context, int64_t count, double value) {
  return make_plan(context, "native:fill",
                   [=, threads = context.engine.threads(),
                    &kernel = context.engine.kernels()](const rt_launch& l) {
                     T* y = output<T>(l, 0);
                     parallel_parts(threads, count, 4 * kElementGrain, 64,
                                    [&](int, int64_t b, int64_t e) {
                                      std::fill(y + b, y + e, static_cast<T>(value));
                                    });
                   });
}

std::unique_ptr<Plan> make_fill(const NativeContext& context, const Operation& op) {
  expect_counts(op, 0, 1);
  const double value = op.number(RT_ATTR_VALUE, 0.0);
  const int64_t count = rt::sdk::element_count(op.output(0));
  switch (op.output(0).dtype) {
    case RT_FLOAT32:
      return make_fill_of<float>(context, count, value);
    case RT_INT32:
      return make_fill_of<int32_t>(context, count, value);
    case RT_INT64:
      return make_fill_of<int64_t>(context, count, value);
    case RT_UINT8:
      return make_fill_of<uint8_t>(context, count, value);
    default:
      op.fail("output is " + rt::sdk::to_string(op.output(0)) +
              "; expected float32, int32, int64 or uint8");
  }
}

constexpr NativeKernel kElementwiseKernels[] = {
    {RT_OP_ACTIVATION, LayoutRule::kElementwise, make_activation},
    {RT_OP_ACTIVATION_BACKWARD, LayoutRule::kElementwise, make_activation_backward},
    {RT_OP_ADD, LayoutRule::kElementwise, make_binary<Binary::kAdd>, NativeKernel::kFuses},
    {RT_OP_SUBTRACT, LayoutRule::kCanonical, make_binary<Binary::kSubtract>},
    {RT_OP_MULTIPLY, LayoutRule::kElementwise, make_binary<Binary::kMultiply>},
    {RT_OP_DIVIDE, LayoutRule::kCanonical, make_binary<Binary::kDivide>},
    {RT_OP_SCALE, LayoutRule::kCanonical, make_scale},
    {RT_OP_COPY, LayoutRule::kElementwise, make_copy, NativeKernel::kBfloat16},
    {RT_OP_FILL, LayoutRule::kCanonical, make_fill},
};

}  // namespace

KernelTable elementwise_kernels() { return {kElementwiseKernels, std::size(kElementwiseKernels)}; }

}  // namespace backends::cpu
