#include <algorithm>

#include "backends/cpu/bfloat16/plans.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/post_chain.h"
#include "rt/operations.h"
#include "rt/sdk/float16.h"

namespace backends::cpu {
namespace {

using kernels::Binary;
using Table = kernels::Table;

// Elements that are widened at a time. A few arrays of so many floats fit the first-level cache.
constexpr int64_t kPiece = 2048;

// Functions other than ReLU cost several times as much per element.
int64_t grain_of(int32_t function) {
  return function == RT_ACTIVATION_RELU ? kElementGrain : kElementGrain / 4;
}

// A plan of one output in bfloat16: compute(launch, first element, count, values) writes the values
// of some elements, at most kPiece of them.
template <typename Compute>
std::unique_ptr<Plan> make_pieces(const NativeContext& context, const Operation& op,
                                  const char* name, int64_t grain, uint32_t in_place,
                                  Compute compute) {
  const int64_t count = rt::sdk::element_count(op.output(0));
  const PostChain chain(op, context.engine.channel_order(op.output(0)));
  auto plan =
      make_plan(context, name,
                [=, threads = context.engine.threads(),
                 &kernel = context.engine.kernels()](const rt_launch& l) {
                  parallel_parts(threads, count, grain, 32, [&](int, int64_t begin, int64_t end) {
                    alignas(64) float values[kPiece];
                    for (int64_t i = begin; i < end; i += kPiece) {
                      const int64_t n = std::min(kPiece, end - i);
                      compute(kernel, l, i, n, values);
                      chain.apply_to_wide(kernel, values, i, n, l.inputs);
                      kernel.narrow(values, output<uint16_t>(l, 0) + i, n);
                    }
                  });
                });
  plan->edit().in_place[0] = in_place;
  return plan;
}

std::unique_ptr<Plan> make_activation(const NativeContext& context, const Operation& op) {
  const auto function = static_cast<int32_t>(op.integer(RT_ATTR_FUNCTION));
  return make_pieces(
      context, op, "bfloat16:activation", grain_of(function), 0x1,
      [=](const Table& kernel, const rt_launch& l, int64_t i, int64_t n, float* values) {
        kernel.widen(input<uint16_t>(l, 0) + i, values, n);
        kernel.activation(function, values, values, n);
      });
}

std::unique_ptr<Plan> make_activation_backward(const NativeContext& context, const Operation& op) {
  const auto function = static_cast<int32_t>(op.integer(RT_ATTR_FUNCTION));
  return make_pieces(
      context, op, "bfloat16:activation_backward", grain_of(function), 0x3,
      [=](const Table& kernel, const rt_launch& l, int64_t i, int64_t n, float* values) {
        alignas(64) float s[kPiece];
        kernel.widen(input<uint16_t>(l, 0) + i, values, n);
        kernel.widen(input<uint16_t>(l, 1) + i, s, n);
        kernel.activation_backward(function, values, s, values, n);
      });
}

std::unique_ptr<Plan> make_scale(const NativeContext& context, const Operation& op) {
  const auto alpha = static_cast<float>(op.number(RT_ATTR_ALPHA, 1.0));
  const auto beta = static_cast<float>(op.number(RT_ATTR_BETA, 0.0));
  return make_pieces(
      context, op, "bfloat16:scale", kElementGrain, 0x1,
      [=](const Table& kernel, const rt_launch& l, int64_t i, int64_t n, float* values) {
        kernel.widen(input<uint16_t>(l, 0) + i, values, n);
        kernel.scale(values, alpha, beta, values, n);
      });
}

// The number of elements after which an operand repeats; 0 if it does not repeat as a whole.
int64_t period(const rt_tensor_desc& operand, const rt_tensor_desc& c) {
  int64_t elements = 1;
  bool ended = false;  // the dimensions of the operand in front are missing or 1
  for (int32_t i = 1; i <= c.rank; ++i) {
    const int64_t whole = c.dims[c.rank - i];
    const int64_t own = i <= operand.rank ? operand.dims[operand.rank - i] : 1;
    if (own != whole) ended = true;
    if (ended && own != 1) return 0;
    elements *= own;
  }
  return elements;
}

void widen_repeated(const Table& kernel, const uint16_t* from, int64_t repeats, int64_t i,
                    int64_t n, float* values) {
  for (int64_t done = 0; done < n;) {
    const int64_t at = (i + done) % repeats, length = std::min(n - done, repeats - at);
    kernel.widen(from + at, values + done, length);
    done += length;
  }
}

template <Binary kWhat>
std::unique_ptr<Plan> make_binary(const NativeContext& context, const Operation& op) {
  constexpr int64_t kShortest = 16;  // of pieces that are worth a call
  const int64_t count = rt::sdk::element_count(op.output(0));
  const int64_t a = period(op.input(0), op.output(0)), b = period(op.input(1), op.output(0));
  for (const int64_t repeats : {a, b}) {
    if (repeats < std::min(count, kShortest)) return nullptr;
  }
  uint32_t in_place = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    if (rt::sdk::same_dims(op.input(i), op.output(0))) in_place |= 1u << i;
  }
  return make_pieces(
      context, op, "bfloat16:arithmetic", kElementGrain, in_place,
      [=](const Table& kernel, const rt_launch& l, int64_t i, int64_t n, float* values) {
        alignas(64) float right[kPiece];
        widen_repeated(kernel, input<uint16_t>(l, 0), a, i, n, values);
        widen_repeated(kernel, input<uint16_t>(l, 1), b, i, n, right);
        kernel.binary(kWhat, values, 1, right, 1, values, n);
      });
}

std::unique_ptr<Plan> make_fill(const NativeContext& context, const Operation& op) {
  const uint16_t value = rt::sdk::to_bfloat16(rt::sdk::round_to_odd(op.number(RT_ATTR_VALUE, 0.0)));
  const int64_t count = rt::sdk::element_count(op.output(0));
  return make_plan(
      context, "bfloat16:fill", [=, threads = context.engine.threads()](const rt_launch& l) {
        parallel_parts(threads, count, 4 * kElementGrain, 64, [&](int, int64_t begin, int64_t end) {
          uint16_t* y = output<uint16_t>(l, 0);
          std::fill(y + begin, y + end, value);
        });
      });
}

std::unique_ptr<Plan> make_cast(const NativeContext& context, const Operation& op) {
  const bool to_float = op.output(0).dtype == RT_FLOAT32;
  const bool from_float = op.input(0).dtype == RT_FLOAT32;
  if (!to_float && !from_float) return nullptr;
  const int64_t count = rt::sdk::element_count(op.output(0));
  return make_plan(
      context, "bfloat16:cast",
      [=, threads = context.engine.threads(),
       &kernel = context.engine.kernels()](const rt_launch& l) {
        parallel_parts(threads, count, kElementGrain, 32, [&](int, int64_t b, int64_t e) {
          if (to_float) {
            kernel.widen(input<uint16_t>(l, 0) + b, output<float>(l, 0) + b, e - b);
          } else {
            kernel.narrow(input<float>(l, 0) + b, output<uint16_t>(l, 0) + b, e - b);
          }
        });
      });
}

struct Maker {
  const char* name;
  std::unique_ptr<Plan> (*make)(const NativeContext&, const Operation&);
};
constexpr Maker kMakers[] = {
    {RT_OP_ACTIVATION, make_activation},
    {RT_OP_ACTIVATION_BACKWARD, make_activation_backward},
    {RT_OP_ADD, make_binary<Binary::kAdd>},
    {RT_OP_SUBTRACT, make_binary<Binary::kSubtract>},
    {RT_OP_MULTIPLY, make_binary<Binary::kMultiply>},
    {RT_OP_DIVIDE, make_binary<Binary::kDivide>},
    {RT_OP_SCALE, make_scale},
    {RT_OP_FILL, make_fill},
    {RT_OP_CAST, make_cast},
};

}  // namespace

std::unique_ptr<Plan> make_bfloat16_flat(const NativeContext& context, const Operation& op) {
  for (const Maker& maker : kMakers) {
    if (op.is(maker.name)) return maker.make(context, op);
  }
  return nullptr;
}

}  // namespace backends::cpu
