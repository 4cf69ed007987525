// NaN, infinities, -0, denormals and very large numbers in operations whose results depend on few
// elements of the operands: elementwise operations, poolings, products, data movement, optimizers.
// plugins/operations.md, "Numbers that are not finite", says what they do.
#include "plugins/conformance/special.h"
#include "rt/sdk/post_ops.h"

namespace plugins::conformance {
namespace {

void activations_cases(Cases& cases, rt_dtype dtype) {
  const Dims dims = {4, 9};
  const auto add = [&](const char* op, int64_t f, const std::string& what, Values first,
                       const Values* second) {
    Builder b(op, dtype, std::to_string(f) + " " + what);
    b.in(dims, first);
    if (second != nullptr) b.in(dims, *second);
    cases.push_back(b.out(dims).integer(RT_ATTR_FUNCTION, f).mandatory());
  };
  for (int64_t f = RT_ACTIVATION_RELU; f <= RT_ACTIVATION_SIGMOID; ++f) {
    const bool of_x = f == RT_ACTIVATION_GELU || f == RT_ACTIVATION_GELU_TANH;
    const Values s{-0.9, 0.9, 9};
    for (const auto& [name, number] : special_numbers(dtype)) {
      add(RT_OP_ACTIVATION, f, "x " + name, with(number, 4, 1), nullptr);
      add(RT_OP_ACTIVATION_BACKWARD, f, "dy " + name, with(number, 4, 1), &s);
      const Values special = with(number, 4, 1, 1, s);
      if (of_x || number != number) {
        add(RT_OP_ACTIVATION_BACKWARD, f, "s " + name, {}, &special);
      }
    }
  }
  if (is_sixteen_bit(dtype)) return;
  for (const int64_t f : {RT_ACTIVATION_RELU, RT_ACTIVATION_TANH}) {
    add(RT_OP_ACTIVATION, f, "denormals", denormals(dtype), nullptr);
  }
}

// Zeros of both signs, negative numbers and numbers near the ends of the type as well.
void functions_cases(Cases& cases, rt_dtype dtype) {
  const Values usual{0.25, 4.0};
  Values zeros = usual;
  zeros.zero_every = 3;
  std::vector<std::pair<std::string, Values>> operands = {{"zeros", zeros},
                                                          {"negative", {-4.0, -0.25}}};
  for (const auto& [name, number] : special_numbers(dtype))
    operands.emplace_back("x " + name, with(number, 4, 1, 1, usual));
  if (!is_sixteen_bit(dtype)) operands.emplace_back("denormals", denormals(dtype));
  for (const int64_t f : rt::sdk::kForwardOnly) {
    for (const auto& [name, values] : operands) {
      cases.push_back(Builder(RT_OP_ACTIVATION, dtype, std::to_string(f) + " " + name)
                          .in({4, 9}, values)
                          .out({4, 9})
                          .integer(RT_ATTR_FUNCTION, f));
    }
  }
  if (is_sixteen_bit(dtype)) return;
  for (const auto& [f, values] : {std::pair<int64_t, Values>{RT_ACTIVATION_EXP, {-80.0, -70.0}},
                                  {RT_ACTIVATION_LOG, {0.999, 1.001}}}) {
    cases.push_back(Builder(RT_OP_ACTIVATION, dtype, std::to_string(f) + " small results")
                        .in({4, 9}, values)
                        .out({4, 9})
                        .integer(RT_ATTR_FUNCTION, f));
  }
}

// Results in the tails of the activations, where the function is nearly 0, computed alone and
// behind a product. Their error must be small relative to the result, not to 1. The products are
// exactly -6, from operands that every type and TF32 represent exactly, because so steep a function
// amplifies every error of its argument.
void tails_cases(Cases& cases, rt_dtype dtype) {
  const Dims dims = {4, 9};
  const Values tail{-8.0, -5.0};
  for (const int32_t f : {RT_ACTIVATION_GELU, RT_ACTIVATION_GELU_TANH, RT_ACTIVATION_SIGMOID}) {
    const std::string name = std::to_string(f) + " tail";
    cases.push_back(Builder(RT_OP_ACTIVATION, dtype, name)
                        .in(dims, tail)
                        .out(dims)
                        .integer(RT_ATTR_FUNCTION, f)
                        .mandatory());
    const Values negative{-1.0, -1.0}, one{1.0, 1.0};
    cases.push_back(Builder(RT_OP_MATMUL, dtype, name)
                        .in({5, 6}, negative)
                        .in({6, 7}, one)
                        .out({5, 7})
                        .activation(f));
    cases.push_back(Builder(RT_OP_CONV2D, dtype, name)
                        .in({2, 5, 5, 6}, negative)
                        .in({7, 1, 1, 6}, one)
                        .out({2, 5, 5, 7})
                        .activation(f));
    if (f == RT_ACTIVATION_SIGMOID) continue;
    cases.push_back(Builder(RT_OP_ACTIVATION_BACKWARD, dtype, name)
                        .in(dims)
                        .in(dims, tail)
                        .out(dims)
                        .integer(RT_ATTR_FUNCTION, f)
                        .mandatory());
  }
}

// Every pair of special numbers meets in some element: 0 times infinity, infinity minus infinity, 1
// / -0.
void arithmetic_cases(Cases& cases, rt_dtype dtype) {
  const Dims dims = {4, 9};
  for (const char* op : {RT_OP_ADD, RT_OP_SUBTRACT, RT_OP_MULTIPLY, RT_OP_DIVIDE}) {
    for (const auto& [name_a, a] : special_numbers(dtype)) {
      for (const auto& [name_b, b] : special_numbers(dtype)) {
        cases.push_back(Builder(op, dtype, name_a + " and " + name_b)
                            .in(dims, with(a, 3, 0))
                            .in(dims, with(b, 2, 0, 1, {0.5, 2.0}))
                            .out(dims)
                            .mandatory());
      }
    }
    if (is_sixteen_bit(dtype) || std::string(op) == RT_OP_DIVIDE) continue;
    const bool product = std::string(op) == RT_OP_MULTIPLY;
    cases.push_back(Builder(op, dtype, "denormals")
                        .in(dims, denormals(dtype))
                        .in(dims, product ? Values{} : denormals(dtype))
                        .out(dims)
                        .mandatory());
  }
  for (const auto& [name, number] : special_numbers(dtype)) {
    for (const double alpha : {0.0, -1.5}) {
      cases.push_back(Builder(RT_OP_SCALE, dtype, name + " times " + std::to_string(alpha))
                          .in(dims, with(number, 4, 1))
                          .out(dims)
                          .number(RT_ATTR_ALPHA, alpha)
                          .number(RT_ATTR_BETA, 0.25)
                          .mandatory());
    }
    cases.push_back(Builder(RT_OP_DROPOUT, dtype, name)
                        .in(dims, with(number, 2, 1))
                        .in_of(RT_INT64, {1}, Values{0, 1000, 3})
                        .in_of(RT_INT64, {1}, Values{0, 1000, 4})
                        .out(dims)
                        .number(RT_ATTR_PROBABILITY, 0.5)
                        .integer(RT_ATTR_SEED, 5)
                        .integer(RT_ATTR_STREAM, 3));
  }
  if (is_sixteen_bit(dtype)) return;
  cases.push_back(Builder(RT_OP_SCALE, dtype, "denormals")
                      .in(dims, denormals(dtype))
                      .out(dims)
                      .number(RT_ATTR_ALPHA, -1.5)
                      .number(RT_ATTR_BETA, 0.0)
                      .mandatory());
}

struct Pool {
  int64_t n, h, w, c, kernel, stride, pad;
  Dims x() const { return {n, h, w, c}; }
  Dims y() const {
    return {n, (h + 2 * pad - kernel) / stride + 1, (w + 2 * pad - kernel) / stride + 1, c};
  }
  std::vector<host::Attribute> attributes() const {
    return {{RT_ATTR_KERNEL_H, kernel}, {RT_ATTR_KERNEL_W, kernel}, {RT_ATTR_STRIDE_H, stride},
            {RT_ATTR_STRIDE_W, stride}, {RT_ATTR_PAD_TOP, pad},     {RT_ATTR_PAD_LEFT, pad},
            {RT_ATTR_PAD_RIGHT, pad},   {RT_ATTR_PAD_BOTTOM, pad}};
  }
};

void pooling_cases(Cases& cases, rt_dtype dtype) {
  for (const Pool& p :
       {Pool{2, 8, 8, 20, 2, 2, 0}, Pool{2, 9, 9, 16, 3, 2, 1}, Pool{17, 5, 5, 3, 3, 1, 0}}) {
    for (const auto& [name, number] : special_numbers(dtype)) {
      const std::string text = label(p.x()) + " " + name;
      const Values x = with(number, 7, 3);
      Builder max(RT_OP_MAX_POOL2D, dtype, text);
      max.in(p.x(), x).out(p.y()).attributes(p.attributes());
      cases.push_back(max);
      cases.push_back(Builder(RT_OP_MAX_POOL2D_BACKWARD, dtype, text)
                          .in(p.y(), Values{-1.0, 1.0, 7})
                          .out(p.x())
                          .attributes(p.attributes())
                          .forward(max));
      cases.push_back(Builder(RT_OP_AVG_POOL2D, dtype, text)
                          .in(p.x(), x)
                          .out(p.y())
                          .attributes(p.attributes()));
      cases.push_back(Builder(RT_OP_AVG_POOL2D_BACKWARD, dtype, text)
                          .in(p.y(), x)
                          .out(p.x())
                          .attributes(p.attributes()));
      cases.push_back(Builder(RT_OP_GLOBAL_AVG_POOL, dtype, text)
                          .in(p.x(), with(number, 100, 3))
                          .out({p.n, p.c}));
    }
    cases.push_back(Builder(RT_OP_MAX_POOL2D, dtype, label(p.x()) + " all -inf")
                        .in(p.x(), with(-kInfinity, 1, 0))
                        .out(p.y())
                        .attributes(p.attributes()));
  }
}

// A NaN in one sample of a convolution must reach the results of this sample only. Groups of one,
// few and many channels have implementations of their own.
void convolutions_cases(Cases& cases, rt_dtype dtype, const std::string& text, int32_t function) {
  struct Shape {
    int64_t size, kernel, channels, of_group, pad_right;
  };
  for (const Shape& s : {Shape{6, 3, 3, 3, 0}, Shape{6, 3, 16, 16, 0}, Shape{6, 3, 16, 1, 0},
                         Shape{1, 1, 2, 1, 1}, Shape{5, 3, 6, 3, 1}}) {
    const Dims x = {2, s.size, s.size, s.channels};
    const int64_t left = s.size - s.kernel + 1;
    Builder convolution(RT_OP_CONV2D, dtype,
                        text + " " + label(x) + " by " + std::to_string(s.of_group));
    convolution.in(x, with(kNaN, 2, 1, s.size * s.size * s.channels))
        .in({s.channels, s.kernel, s.kernel, s.of_group})
        .out({2, left, left + s.pad_right, s.channels})
        .integer(RT_ATTR_PAD_RIGHT, s.pad_right)
        .integer(RT_ATTR_GROUPS, s.channels / s.of_group);
    if (function != 0) convolution.bias().activation(function);
    cases.push_back(convolution);
  }
}

// A special number in a row of a (matmul) or in a sample of x (convolution), also with an
// activation behind it. Function 0 means no activation.
void products_cases(Cases& cases, rt_dtype dtype) {
  for (const auto& [name, number] : {Named{"NaN", kNaN}, Named{"inf", kInfinity}}) {
    for (int32_t function = 0; function <= RT_ACTIVATION_SIGMOID; ++function) {
      const std::string text =
          name + (function != 0 ? " activation " + std::to_string(function) : "");
      for (const int64_t n : {6, 64}) {
        Builder product(RT_OP_MATMUL, dtype, text + " " + std::to_string(n));
        product.in({5, n}, with(number, 5, 2, n)).in({n, n}).out({5, n});
        if (function != 0) product.bias().activation(function);
        cases.push_back(function != 0 ? product : product.mandatory());
      }
      // Infinities are tested in products only: Winograd's transforms turn them into NaN for
      // neighbours.
      if (number != number) convolutions_cases(cases, dtype, text, function);
    }
  }
}

void movement_cases(Cases& cases, rt_dtype dtype) {
  for (const auto& [name, number] : special_numbers(dtype)) {
    const Values x = with(number, 4, 1);
    cases.push_back(Builder(RT_OP_COPY, dtype, name).in({4, 9}, x).out({4, 9}).mandatory());
    cases.push_back(Builder(RT_OP_TRANSPOSE, dtype, name)
                        .in({4, 9}, x)
                        .out({9, 4})
                        .integer(RT_ATTR_PERMUTATION, 0x01));
    cases.push_back(Builder(RT_OP_EMBEDDING, dtype, name)
                        .in_of(RT_INT32, {6}, Values{0.0, 4.0, 5})
                        .in({4, 9}, x)
                        .out({6, 9}));
    if (dtype == RT_FLOAT16) continue;
    cases.push_back(
        Builder(RT_OP_CAST, dtype, name + " to float16").in({4, 9}, x).out_of(RT_FLOAT16, {4, 9}));
  }
}

// The common inputs of the optimizers: param, grad, lr, scale.
Builder update(const char* op, rt_dtype dtype, const std::string& name, Values param, Values grad,
               Values scale) {
  Builder b(op, dtype, name);
  b.in({7}, param).in({7}, grad).in({1}, Values{0.05, 0.2}).in({1}, scale);
  return b;
}

// The first step of adamw, whose moments are zero.
Builder adamw(rt_dtype dtype, const std::string& name, Values param, double beta1, double decay) {
  const Values zero{0.0, 0.0};
  return update(RT_OP_ADAMW, dtype, name, param, {}, {0.5, 1.0})
      .in({7}, zero)
      .in({7}, zero)
      .in_of(RT_INT64, {1}, Values{1, 2})
      .out({7})
      .out({7})
      .out({7})
      .number(RT_ATTR_BETA1, beta1)
      .number(RT_ATTR_BETA2, 0.9999)
      .number(RT_ATTR_EPSILON, 1e-8)
      .number(RT_ATTR_WEIGHT_DECAY, decay);
}

void updates_cases(Cases& cases, rt_dtype dtype) {
  const Values usual{0.5, 1.0};
  for (const auto& [name, number] : {Named{"NaN", kNaN}, Named{"inf", kInfinity}}) {
    const Values special = with(number, 4, 1), all = with(number, 1, 0);
    cases.push_back(
        update(RT_OP_SGD, dtype, "grad " + name, {}, special, usual).out({7}).mandatory());
    cases.push_back(
        update(RT_OP_SGD, dtype, "param " + name, special, {}, usual).out({7}).mandatory());
    if (number != number) {
      cases.push_back(update(RT_OP_SGD, dtype, "scale NaN", {}, {}, all).out({7}).mandatory());
    }
    for (const double decay : {0.0, 0.1}) {
      const std::string text = "param " + name + " decay " + std::to_string(decay);
      for (const int64_t nesterov : {0, 1}) {
        cases.push_back(
            update(RT_OP_SGD, dtype, text + (nesterov ? " nesterov" : ""), special, {}, usual)
                .in({7})
                .out({7})
                .out({7})
                .number(RT_ATTR_MOMENTUM, 0.9)
                .integer(RT_ATTR_NESTEROV, nesterov)
                .number(RT_ATTR_WEIGHT_DECAY, decay));
      }
      cases.push_back(adamw(dtype, text, special, 0.9, decay));
    }
  }
  // The precision of 1 - beta: moments that start at zero are multiples of it.
  cases.push_back(adamw(dtype, "betas near 1", {}, 0.999, 0.0));
  for (const auto& [name, number] : special_numbers(dtype)) {
    if (number < 0) continue;  // clip_scale reads a sum of squares
    cases.push_back(Builder(RT_OP_CLIP_SCALE, dtype, name)
                        .in({1}, with(number, 1, 0))
                        .out({1})
                        .number(RT_ATTR_MAX_NORM, 0.5));
  }
}

}  // namespace

void add_special_numbers(Cases& cases, rt_dtype dtype) {
  activations_cases(cases, dtype);
  functions_cases(cases, dtype);
  if (!is_sixteen_bit(dtype)) tails_cases(cases, dtype);
  arithmetic_cases(cases, dtype);
  pooling_cases(cases, dtype);
  products_cases(cases, dtype);
  movement_cases(cases, dtype);
  if (!is_sixteen_bit(dtype)) updates_cases(cases, dtype);
}

}  // namespace plugins::conformance
