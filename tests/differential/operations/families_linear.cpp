// Families of matrix products, convolutions and poolings.
#include <algorithm>
#include <cmath>

#include "plugins/conformance/forms.h"
#include "tests/differential/operations/family.h"

namespace differential {
namespace {

using plugins::conformance::Convolution;
using plugins::conformance::ConvPool;
using plugins::conformance::Pooling;
using plugins::conformance::Product;

// The reference computes one product of two numbers at a time; cases with more products take
// seconds.
constexpr double kMostProducts = 4e6;

double times(const Dims& dims) {
  double count = 1;
  for (const int64_t d : dims) count *= static_cast<double>(d);
  return count;
}

Family matmul() {
  Family f{.operation = RT_OP_MATMUL,
           .parameters = {size_or_none("m", 130), size_or_none("n", 130), size_or_none("k", 300),
                          choice("leading", {0, 0, 1, 2}), size("batch", 6), size("heads", 4),
                          flag("ta"), flag("tb"), flag("batched_b")}};
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const Dims all = {s["batch"], s["heads"]};
    const Dims leading(all.begin(), all.begin() + s["leading"]);
    if (times(leading) * times({s["m"], s["n"], s["k"]}) > kMostProducts) return std::nullopt;
    if (s["batched_b"] && leading.empty()) return std::nullopt;
    return product(dtype, Product{leading, s["m"], s["n"], s["k"]}, s["ta"], s["tb"],
                   s["batched_b"]);
  };
  f.sums_products = true;
  f.huge = 1e15;
  return f;
}

// `c` and `o` are channels of one group; padding may differ on every side.
std::vector<Parameter> convolution_parameters() {
  return {size_or_none("n", 20),
          size("h", 24),
          size("w", 24),
          size("c", 40),
          size("o", 40),
          choice("groups", {1, 1, 1, 1, 2, 3, 4, 8, 16}),
          size("kernel_h", 7),
          size("kernel_w", 7),
          choice("stride_h", {1, 1, 1, 2, 3}),
          choice("stride_w", {1, 1, 1, 2, 3}),
          choice("dilation_h", {1, 1, 1, 2, 3}),
          choice("dilation_w", {1, 1, 1, 2, 3}),
          choice("pad_top", {0, 0, 1, 1, 2, 3}),
          choice("pad_bottom", {0, 0, 1, 1, 2, 3}),
          choice("pad_left", {0, 0, 1, 1, 2, 3}),
          choice("pad_right", {0, 0, 1, 1, 2, 3}),
          flag("unequal"),
          flag("unequal_pad")};
}

// In common networks width has the same parameters as height, and all sides have the padding of the
// top. These functions return the own value only if the recipe says "unequal".
int64_t width(const Sizes& s, const char* own, const char* of_height) {
  return s[s["unequal"] ? own : of_height];
}
int64_t padding(const Sizes& s, const char* own) { return s[s["unequal_pad"] ? own : "pad_top"]; }

std::optional<Convolution> convolution_of(const Sizes& s) {
  Convolution v{s["n"],
                s["h"],
                s["w"],
                s["c"] * s["groups"],
                s["o"] * s["groups"],
                s["kernel_h"],
                width(s, "kernel_w", "kernel_h")};
  v.stride_h = s["stride_h"], v.stride_w = width(s, "stride_w", "stride_h");
  v.dilation_h = s["dilation_h"], v.dilation_w = width(s, "dilation_w", "dilation_h");
  v.pad_top = s["pad_top"], v.pad_bottom = padding(s, "pad_bottom");
  v.pad_left = padding(s, "pad_left"), v.pad_right = padding(s, "pad_right");
  v.groups = s["groups"];
  const auto covered = [](int64_t size, int64_t padding, int64_t kernel, int64_t dilation) {
    return size + padding - dilation * (kernel - 1) - 1;
  };
  if (covered(v.h, v.pad_top + v.pad_bottom, v.kernel_h, v.dilation_h) < 0 ||
      covered(v.w, v.pad_left + v.pad_right, v.kernel_w, v.dilation_w) < 0)
    return std::nullopt;
  if (times(v.y()) * times(v.weights()) / static_cast<double>(v.o) > kMostProducts)
    return std::nullopt;
  return v;
}

Family convolution(const char* operation,
                   const std::function<Case(rt_dtype, const Convolution&, const Sizes&)>& build) {
  Family f{.operation = operation, .parameters = convolution_parameters()};
  f.build = [build](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const std::optional<Convolution> v = convolution_of(s);
    if (!v) return std::nullopt;
    return build(dtype, *v, s);
  };
  f.sums_products = true;
  f.huge = 1e15;
  f.not_finite = NotFinite::kMaySpread;
  // An infinite weight (or dy) at padding contributes nothing in one implementation and NaN in
  // another.
  f.finite_inputs = [](const Sizes&) { return 2u; };
  return f;
}

std::vector<Parameter> pooling_parameters() {
  return {size_or_none("n", 20),
          size("h", 24),
          size("w", 24),
          size_or_none("c", 70),
          size("kernel_h", 5),
          size("kernel_w", 5),
          size("stride_h", 4),
          size("stride_w", 4),
          choice("pad_top", {0, 0, 0, 1, 2, 3}),
          choice("pad_bottom", {0, 0, 0, 1, 2, 3}),
          choice("pad_left", {0, 0, 0, 1, 2, 3}),
          choice("pad_right", {0, 0, 0, 1, 2, 3}),
          flag("count_include_pad"),
          flag("unequal"),  // with the meaning that it has for convolutions
          flag("unequal_pad")};
}

std::optional<Pooling> pooling_of(const Sizes& s) {
  const Pooling p{s["n"],
                  s["h"],
                  s["w"],
                  s["c"],
                  s["kernel_h"],
                  width(s, "kernel_w", "kernel_h"),
                  s["stride_h"],
                  width(s, "stride_w", "stride_h"),
                  s["pad_top"],
                  padding(s, "pad_bottom"),
                  padding(s, "pad_left"),
                  padding(s, "pad_right"),
                  s["count_include_pad"]};
  const bool padding_is_smaller = p.pad_top < p.kernel_h && p.pad_bottom < p.kernel_h &&
                                  p.pad_left < p.kernel_w && p.pad_right < p.kernel_w;
  if (!padding_is_smaller || p.h + p.pad_top + p.pad_bottom < p.kernel_h ||
      p.w + p.pad_left + p.pad_right < p.kernel_w)
    return std::nullopt;
  return p;
}

Family pooling(const char* operation, const std::function<Case(rt_dtype, const Pooling&)>& build) {
  Family f{.operation = operation, .parameters = pooling_parameters()};
  f.build = [build](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const std::optional<Pooling> p = pooling_of(s);
    if (!p) return std::nullopt;
    return build(dtype, *p);
  };
  return f;
}

// Where tanh or sigmoid has a result near its limit, little is left of 1 - y^2, but the rounding of
// y remains, for each of the products of x and dy.
double terms_of_limits(const Sizes& s, const std::vector<std::vector<double>>& inputs) {
  if (s["function"] != RT_ACTIVATION_TANH && s["function"] != RT_ACTIVATION_SIGMOID) return 0;
  double largest = 0, sum = 0;
  for (const double x : inputs[0]) largest = std::max(largest, std::abs(x));
  for (const double dy : inputs[1]) sum += std::abs(dy);
  return largest * sum;
}

// A convolution with a pooling behind it. The gradient chooses between results of the convolution,
// and multiplies those that it does not choose by 0 or leaves them out, so x and dy are finite.
Family convolution_pooling(const char* operation, bool backward) {
  Family f{.operation = operation, .parameters = convolution_parameters()};
  // The core asks for no gradient of a gelu, whose results near 0 have two sources.
  const std::vector<int64_t> functions =
      backward ? std::vector<int64_t>{0, 1, 1, 4, 5} : std::vector<int64_t>{0, 1, 1, 1, 2, 3, 4, 5};
  f.parameters = with(f.parameters,
                      {choice("pool_h", {2, 2, 2, 1, 3, 4}), choice("pool_w", {2, 2, 2, 1, 3, 4}),
                       flag("average"), choice("function", functions)});
  f.build = [backward](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const std::optional<Convolution> v = convolution_of(s);
    if (!v || v->y()[1] < s["pool_h"] || v->y()[2] < s["pool_w"]) return std::nullopt;
    const ConvPool both{*v, s["pool_h"], s["pool_w"], s["average"] != 0, s["function"]};
    const Case forward = conv_pool_forward(dtype, both);
    if (!backward) return forward;
    return conv_pool_backward_weights(dtype, both).forward(forward).get();
  };
  f.sums_products = !backward;
  f.chooses_results = backward;
  if (backward) f.terms = terms_of_limits;
  f.huge = backward ? 1e7 : 1e15;
  f.not_finite = NotFinite::kMaySpread;
  // The weights, as for conv2d: 1 of the forward operation, which is 3 behind x and dy.
  f.finite_inputs = [backward](const Sizes&) { return backward ? 0b1011u : 0b10u; };
  return f;
}

Family global_pooling(const char* operation, bool backward) {
  Family f{
      .operation = operation,
      .parameters = {size_or_none("n", 20), size("h", 24), size("w", 24), size_or_none("c", 70)}};
  f.build = [operation, backward](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const Dims x = {s["n"], s["h"], s["w"], s["c"]}, y = {s["n"], s["c"]};
    return Builder(operation, dtype, "").in(backward ? y : x).out(backward ? x : y).get();
  };
  return f;
}

}  // namespace

void add_linear(Families& families) {
  families.push_back(matmul());
  families.push_back(
      convolution(RT_OP_CONV2D, [](rt_dtype dtype, const Convolution& v, const Sizes&) -> Case {
        return convolution_forward(dtype, v);
      }));
  families.push_back(convolution(RT_OP_CONV2D_BACKWARD_DATA,
                                 [](rt_dtype dtype, const Convolution& v, const Sizes&) -> Case {
                                   return convolution_backward_data(dtype, v);
                                 }));
  Family weights = convolution(RT_OP_CONV2D_BACKWARD_WEIGHTS,
                               [](rt_dtype dtype, const Convolution& v, const Sizes& s) -> Case {
                                 return convolution_backward_weights(dtype, v, s["bias"]);
                               });
  weights.parameters.push_back(flag("bias"));
  families.push_back(weights);
}

void add_pooling(Families& families) {
  Family max = pooling(RT_OP_MAX_POOL2D, [](rt_dtype dtype, const Pooling& p) -> Case {
    return pooling_forward(RT_OP_MAX_POOL2D, dtype, p, false);
  });
  families.push_back(max);
  families.push_back(
      pooling(RT_OP_MAX_POOL2D_BACKWARD, [](rt_dtype dtype, const Pooling& p) -> Case {
        const Case forward = pooling_forward(RT_OP_MAX_POOL2D, dtype, p, false);
        return pooling_backward(RT_OP_MAX_POOL2D_BACKWARD, dtype, p, false).forward(forward);
      }));
  families.push_back(pooling(RT_OP_AVG_POOL2D, [](rt_dtype dtype, const Pooling& p) -> Case {
    return pooling_forward(RT_OP_AVG_POOL2D, dtype, p, true);
  }));
  families.push_back(
      pooling(RT_OP_AVG_POOL2D_BACKWARD, [](rt_dtype dtype, const Pooling& p) -> Case {
        return pooling_backward(RT_OP_AVG_POOL2D_BACKWARD, dtype, p, true);
      }));
  families.push_back(convolution_pooling(RT_OP_CONV2D_POOL2D, false));
  families.push_back(convolution_pooling(RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS, true));
  families.push_back(global_pooling(RT_OP_GLOBAL_AVG_POOL, false));
  families.push_back(global_pooling(RT_OP_GLOBAL_AVG_POOL_BACKWARD, true));
}

}  // namespace differential
