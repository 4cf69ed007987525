// Elementwise operations and reductions.
#include "plugins/conformance/builder.h"

namespace plugins::conformance {
namespace {

const std::vector<Dims>& shapes() {
  static const std::vector<Dims> list = {{1},      {7},          {1000},        {3, 5}, {70, 129},
                                         {64, 10}, {2, 3, 5, 7}, {2, 4, 4, 20}, {}};
  return list;
}

void add_activations(Cases& cases, rt_dtype dtype) {
  const Values wide{-4.0, 4.0};
  for (int64_t f = RT_ACTIVATION_RELU; f <= RT_ACTIVATION_SIGMOID; ++f) {
    for (const Dims& dims : shapes()) {
      const std::string name = std::to_string(f) + " " + label(dims);
      cases.push_back(Builder(RT_OP_ACTIVATION, dtype, name)
                          .in(dims, wide)
                          .out(dims)
                          .integer(RT_ATTR_FUNCTION, f)
                          .mandatory());
      cases.push_back(Builder(RT_OP_ACTIVATION_BACKWARD, dtype, name)
                          .in(dims)
                          .in(dims, Values{-1.0, 1.0, 9})
                          .out(dims)
                          .integer(RT_ATTR_FUNCTION, f)
                          .mandatory());
    }
  }
}

// The functions that only the operation `activation` has, each where it is finite.
void add_functions(Cases& cases, rt_dtype dtype) {
  const std::vector<std::pair<int64_t, Values>> functions = {
      {RT_ACTIVATION_EXP, {-4.0, 4.0}},  {RT_ACTIVATION_LOG, {0.1, 8.0}},
      {RT_ACTIVATION_SQRT, {0.0, 8.0}},  {RT_ACTIVATION_RECIPROCAL, {-8.0, -0.25}},
      {RT_ACTIVATION_SIN, {-8.0, 8.0}},  {RT_ACTIVATION_COS, {-8.0, 8.0}},
      {RT_ACTIVATION_FLOOR, {-8.0, 8.0}}};
  for (const auto& [f, values] : functions) {
    for (const Dims& dims : shapes()) {
      cases.push_back(Builder(RT_OP_ACTIVATION, dtype, std::to_string(f) + " " + label(dims))
                          .in(dims, values)
                          .out(dims)
                          .integer(RT_ATTR_FUNCTION, f));
    }
    if (is_sixteen_bit(dtype)) continue;
    const Dims dims = {2, 4, 4, 6};
    cases.push_back(Builder(RT_OP_ADD, dtype, "relu and no " + std::to_string(f))
                        .in(dims)
                        .in(dims)
                        .out(dims)
                        .activation(RT_ACTIVATION_RELU)
                        .activation(static_cast<int32_t>(f)));  // must not be fused
  }
}

void add_arithmetic(Cases& cases, rt_dtype dtype) {
  struct Operands {
    Dims a, b, c;
  };
  const std::vector<Operands> list = {
      {{5}, {5}, {5}},
      {{3, 4}, {4}, {3, 4}},
      {{4}, {3, 4}, {3, 4}},
      {{3, 1}, {1, 4}, {3, 4}},
      {{2, 3, 4, 5}, {2, 3, 4, 5}, {2, 3, 4, 5}},
      {{2, 3, 4, 5}, {5}, {2, 3, 4, 5}},
      {{2, 1, 4, 1}, {3, 1, 5}, {2, 3, 4, 5}},
      {{6, 7}, {}, {6, 7}},
      {{1, 7}, {1, 7}, {6, 7}},  // both operands are repeated, as when the core expands a gradient
      {{}, {}, {}},
      // Rows of 24 columns, which may be read several at a time.
      {{3, 24}, {24}, {3, 24}},
      {{24}, {3, 24}, {3, 24}},
      {{3, 1}, {3, 24}, {3, 24}},
      {{1, 24}, {3, 1}, {3, 24}},
      {{2, 1, 5, 24}, {3, 1, 24}, {2, 3, 5, 24}},
      {{5, 2, 4, 8}, {2, 1, 8}, {5, 2, 4, 8}},
      {{40, 192}, {192}, {40, 192}},
  };
  for (const char* op : {RT_OP_ADD, RT_OP_SUBTRACT, RT_OP_MULTIPLY, RT_OP_DIVIDE}) {
    for (const Operands& o : list) {
      cases.push_back(Builder(op, dtype, label(o.a) + " " + label(o.b) + " " + label(o.c))
                          .in(o.a)
                          .in(o.b, Values{0.5, 2.0})  // keeps divisors away from 0
                          .out(o.c)
                          .mandatory());
    }
  }
  const Dims dims = {2, 4, 4, 6};
  cases.push_back(
      Builder(RT_OP_ADD, dtype, "relu").in(dims).in(dims).out(dims).activation(RT_ACTIVATION_RELU));
  cases.push_back(Builder(RT_OP_ADD, dtype, "relu backward")
                      .in(dims)
                      .in(dims)
                      .out(dims)
                      .activation_backward(RT_ACTIVATION_RELU));
}

// Sums with post-operations, of operands that are repeated and of rows with an odd number of
// columns.
void add_sums_with_post_operations(Cases& cases, rt_dtype dtype) {
  for (const Dims& dims : {Dims{6, 40}, Dims{6, 41}}) {
    const Dims row = {dims[1]};
    const std::string name = label(dims);
    const auto sum = [&](const std::string& what, const Dims& b) {
      return Builder(RT_OP_ADD, dtype, name + " " + what).in(dims).in(b).out(dims);
    };
    cases.push_back(sum("residual", dims).residual());
    cases.push_back(sum("row, relu", row).activation(RT_ACTIVATION_RELU));
    cases.push_back(
        sum("residual, relu backward", dims).residual().activation_backward(RT_ACTIVATION_RELU));
    cases.push_back(sum("bias, gelu", dims).bias().activation(RT_ACTIVATION_GELU));
    cases.push_back(sum("row, bias, residual, tanh, sigmoid backward", row)
                        .bias()
                        .residual()
                        .activation(RT_ACTIVATION_TANH)
                        .activation_backward(RT_ACTIVATION_SIGMOID));
  }
}

Builder dropout(rt_dtype dtype, const Dims& dims, double probability, const std::string& what) {
  Builder b(RT_OP_DROPOUT, dtype, label(dims) + " " + what);
  b.in(dims).in_of(RT_INT64, {1}, Values{0, 1000, 3});
  b.in_of(RT_INT64, {1}, Values{0, 5000000000.0, 4}).out(dims);  // needs more than 32 bits
  b.number(RT_ATTR_PROBABILITY, probability).integer(RT_ATTR_SEED, 0x123456789ABCDEF);
  return b.integer(RT_ATTR_STREAM, 3);
}

void add_dropout(Cases& cases, rt_dtype dtype) {
  for (const int64_t first : {0, 3, 8}) {
    for (const int64_t columns : {1, 4, 7}) {
      cases.push_back(dropout(dtype, {3, 4, columns}, 0.5, "from " + std::to_string(first))
                          .integer(RT_ATTR_COLUMNS, columns)
                          .integer(RT_ATTR_WHOLE_COLUMNS, 17)
                          .integer(RT_ATTR_FIRST_COLUMN, first));
    }
  }
  // All rows in fours: a slice of columns, and samples of which the second begins in the middle of
  // a vector of eight elements.
  cases.push_back(dropout(dtype, {3, 5, 8}, 0.5, "columns in fours")
                      .integer(RT_ATTR_COLUMNS, 8)
                      .integer(RT_ATTR_WHOLE_COLUMNS, 20)
                      .integer(RT_ATTR_FIRST_COLUMN, 4));
  for (const Dims& dims : {Dims{5}, Dims{4, 7}, Dims{5, 12}, Dims{3, 4, 4, 5}, Dims{7, 40, 36}}) {
    for (const double probability : {0.0, 0.25, 0.5}) {
      cases.push_back(dropout(dtype, dims, probability, std::to_string(probability)));
    }
  }
}

}  // namespace

void add_elementwise(Cases& cases, rt_dtype dtype) {
  add_activations(cases, dtype);
  add_arithmetic(cases, dtype);
  add_sums_with_post_operations(cases, dtype);
  add_functions(cases, dtype);
  for (const Dims& dims : shapes()) {
    cases.push_back(Builder(RT_OP_SCALE, dtype, label(dims))
                        .in(dims)
                        .out(dims)
                        .number(RT_ATTR_ALPHA, -1.5)
                        .number(RT_ATTR_BETA, 0.25)
                        .mandatory());
  }
  add_dropout(cases, dtype);
}

void add_reductions(Cases& cases, rt_dtype dtype) {
  struct Shape {
    Dims x;
    int64_t axes;
    Dims y;
  };
  const std::vector<Shape> list = {
      {{7}, 1, {1}},
      {{7}, 1, {}},
      {{5, 6}, 1, {6}},
      {{5, 6}, 2, {5, 1}},
      {{5, 6}, 3, {}},
      {{64, 50}, 1, {1, 50}},
      {{2, 3, 4, 5}, 7, {5}},
      {{2, 3, 4, 5}, 6, {2, 5}},
      {{2, 3, 4, 5}, 8, {2, 3, 4}},
      {{2, 3, 4, 5}, 5, {1, 3, 1, 5}},
      {{2, 3}, 0, {2, 3}},
      {{7, 40}, 2, {7}},  // rows that may be read several elements at a time
      {{20011}, 1, {1}},  // enough for several blocks of threads
      {{30, 700}, 3, {1, 1}},
  };
  for (const int64_t function : {RT_REDUCE_SUM, RT_REDUCE_MEAN, RT_REDUCE_MAX}) {
    for (const Shape& s : list) {
      cases.push_back(Builder(RT_OP_REDUCE, dtype,
                              std::to_string(function) + " " + label(s.x) + " to " + label(s.y) +
                                  " axes " + std::to_string(s.axes))
                          .in(s.x)
                          .out(s.y)
                          .integer(RT_ATTR_FUNCTION, function)
                          .integer(RT_ATTR_AXES, s.axes)
                          .mandatory());
    }
  }
  std::vector<Dims> more = shapes();
  more.push_back({20011});
  for (const Dims& dims : more) {
    cases.push_back(Builder(RT_OP_SQUARE_SUM, dtype, label(dims)).in(dims).wide_out({1}));
  }
  if (is_sixteen_bit(dtype)) return;
  for (const double max_norm : {0.5, 100.0}) {
    cases.push_back(Builder(RT_OP_CLIP_SCALE, dtype, std::to_string(max_norm))
                        .in({1}, Values{4.0, 9.0})
                        .out({1})
                        .number(RT_ATTR_MAX_NORM, max_norm));
  }
}

}  // namespace plugins::conformance
