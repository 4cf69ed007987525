// NaN, infinities and very large numbers in operations whose results depend on a whole row, column
// or tensor; rows of weight 0, which may hold anything; and normalisation of nearly constant data.
#include "plugins/conformance/special.h"

namespace plugins::conformance {
namespace {

void reductions_cases(Cases& cases, rt_dtype dtype) {
  struct Shape {
    Dims x;
    int64_t axes;
    Dims y;
    int64_t every;
  };
  const std::vector<Shape> list = {{{5, 6}, 1, {6}, 11},
                                   {{5, 6}, 2, {5}, 11},
                                   {{5, 6}, 3, {}, 11},
                                   {{64, 50}, 1, {1, 50}, 431},
                                   {{2, 3, 4, 5}, 5, {1, 3, 1, 5}, 37},
                                   {{4, 20000}, 2, {4}, 33333},
                                   {{20000, 3}, 1, {3}, 44444},
                                   {{50000}, 1, {1}, 50000}};
  for (const int64_t function : {RT_REDUCE_SUM, RT_REDUCE_MEAN, RT_REDUCE_MAX}) {
    for (const auto& [name, number] : special_numbers(dtype)) {
      for (const Shape& s : list) {
        if (is_sixteen_bit(dtype) && s.every > 1000) continue;
        cases.push_back(Builder(RT_OP_REDUCE, dtype,
                                std::to_string(function) + " " + label(s.x) + " axes " +
                                    std::to_string(s.axes) + " " + name)
                            .in(s.x, with(number, s.every, s.every - 1))
                            .out(s.y)
                            .integer(RT_ATTR_FUNCTION, function)
                            .integer(RT_ATTR_AXES, s.axes)
                            .mandatory());
      }
    }
  }
  cases.push_back(Builder(RT_OP_REDUCE, dtype, "3 all -inf")
                      .in({5, 6}, with(-kInfinity, 1, 0))
                      .out({6})
                      .integer(RT_ATTR_FUNCTION, RT_REDUCE_MAX)
                      .integer(RT_ATTR_AXES, 1)
                      .mandatory());
  for (const auto& [name, number] : special_numbers(dtype)) {
    cases.push_back(
        Builder(RT_OP_SQUARE_SUM, dtype, name).in({1000}, with(number, 1000, 999)).wide_out({1}));
  }
}

void softmax_cases(Cases& cases, rt_dtype dtype) {
  const Dims dims = {6, 17};
  for (const auto& [name, number] : special_numbers(dtype)) {
    for (const char* op : {RT_OP_SOFTMAX, RT_OP_LOG_SOFTMAX}) {
      cases.push_back(Builder(op, dtype, name).in(dims, with(number, 41, 5)).out(dims));
      if (number > 0) continue;
      cases.push_back(
          Builder(op, dtype, "rows of " + name).in(dims, with(number, 3, 1, 17)).out(dims));
    }
    cases.push_back(Builder(RT_OP_SOFTMAX_BACKWARD, dtype, name)
                        .in(dims, with(number, 41, 5))
                        .in(dims, Values{0.0, 0.2})
                        .out(dims));
  }
}

// Number of rows of logits; the weight of every fourth row is 0.
constexpr int64_t kRows = 8;
const Values kWeightOfRows{0.1, 1.0, 3, 4};

Builder classes(const char* op, rt_dtype dtype, const std::string& name, Values logits) {
  Builder b(op, dtype, name);
  b.in({kRows, 17}, logits).in_of(RT_INT32, {kRows}, Values{0.0, 17.0, 2});
  return b;
}

void classification_cases(Cases& cases, rt_dtype dtype, const std::string& name, Values logits) {
  const Dims dims = {kRows, 17};
  const auto weighted = [&](const char* op) {
    return classes(op, dtype, name, logits).wide_in({kRows}, kWeightOfRows);
  };
  cases.push_back(weighted(RT_OP_CROSS_ENTROPY).wide_out({1}).mandatory());
  cases.push_back(weighted(RT_OP_CROSS_ENTROPY_BACKWARD).wide_in({1}).out(dims).mandatory());
  cases.push_back(weighted(RT_OP_CORRECT_COUNT).wide_out({1}).mandatory());
  cases.push_back(weighted(RT_OP_CROSS_ENTROPY_WITH_GRADIENT)
                      .wide_in({1})
                      .wide_out({1})
                      .out(dims)
                      .wide_out({1}));
  cases.push_back(classes(RT_OP_CROSS_ENTROPY_STATISTICS, dtype, name, logits)
                      .wide_out({1, kRows, 4})
                      .integer(RT_ATTR_FIRST_CLASS, 0));
  cases.push_back(weighted(RT_OP_CROSS_ENTROPY_BACKWARD_APPLY)
                      .wide_in({1})
                      .wide_in({kRows, 2}, Values{3.0, 5.0})
                      .out(dims)
                      .integer(RT_ATTR_FIRST_CLASS, 0));
}

void regression_cases(Cases& cases, rt_dtype dtype, const std::string& name, Values y) {
  const Dims dims = {kRows, 17};
  const auto start = [&](const char* op) {
    Builder b(op, dtype, name);
    b.in(dims, y).in(dims).wide_in({kRows}, kWeightOfRows);
    return b;
  };
  cases.push_back(start(RT_OP_MEAN_SQUARED_ERROR).wide_out({1}));
  cases.push_back(start(RT_OP_MEAN_SQUARED_ERROR_BACKWARD).wide_in({1}).out(dims));
}

void merges_cases(Cases& cases, rt_dtype dtype) {
  const auto merge = [&](const std::string& name, Values parts) {
    cases.push_back(Builder(RT_OP_CROSS_ENTROPY_MERGE, dtype, name)
                        .in({3, kRows, 4}, parts)
                        .in({kRows}, kWeightOfRows)
                        .out({1})
                        .out({kRows, 2})
                        .out({1}));
  };
  const Values usual{0.5, 2.0};
  for (const auto& [name, number] : {Named{"NaN", kNaN}, Named{"inf", kInfinity}}) {
    merge("padding of " + name, with(number, 4, 3, 4, usual));
    // Replaces the largest logit of row 1 in the second slice.
    merge("largest " + name, with(number, 4 * kRows * 3, 4 * (kRows + 1), 1, usual));
  }
}

void losses_cases(Cases& cases, rt_dtype dtype) {
  for (const auto& [name, number] : special_numbers(dtype)) {
    // Rows 3 and 7 have weight 0.
    classification_cases(cases, dtype, "padding of " + name, with(number, 4, 3, 17));
    regression_cases(cases, dtype, "padding of " + name, with(number, 4, 3, 17));
    if (number == 0) continue;
    classification_cases(cases, dtype, "some " + name, with(number, 41, 5));
    classification_cases(cases, dtype, "rows of " + name, with(number, 4, 1, 17));
    regression_cases(cases, dtype, "some " + name, with(number, 41, 5));
  }
  if (!is_sixteen_bit(dtype)) merges_cases(cases, dtype);
}

// Operands that forward and backward operation share.
const Values kGammaOfRows{0.5, 1.5, 12};

Builder batch_norm(rt_dtype dtype, const std::string& name, const Dims& x, Values values) {
  const Dims c = {x.back()};
  Builder b(RT_OP_BATCH_NORM, dtype, label(x) + " " + name);
  b.in(x, values).wide_in(c, kGammaOfRows).wide_in(c).wide_in(c).wide_in(c, Values{0.5, 2.0});
  b.out(x).wide_out(c).wide_out(c).number(RT_ATTR_EPSILON, 1e-12);
  return b.number(RT_ATTR_MOMENTUM, 0.2);
}

Builder layer_norm(rt_dtype dtype, const std::string& name, const Dims& x, Values values) {
  const Dims d = {x.back()};
  Builder b(RT_OP_LAYER_NORM, dtype, label(x) + " " + name);
  return b.in(x, values).wide_in(d, kGammaOfRows).wide_in(d).out(x).number(RT_ATTR_EPSILON, 1e-12);
}

Builder backward(const char* op, rt_dtype dtype, const std::string& name, const Dims& x,
                 const Builder& forward) {
  const Dims d = {x.back()};
  Builder b(op, dtype, label(x) + " " + name);
  b.in(x, Values{-1.0, 1.0, 13}).in(x, forward.get().inputs[0]).wide_in(d, kGammaOfRows);
  b.out(x).wide_out(d).wide_out(d).number(RT_ATTR_EPSILON, 1e-12);
  return b.forward(forward);
}

void normalised_cases(Cases& cases, rt_dtype dtype, const std::string& name, const Dims& x,
                      Values values) {
  const Builder columns = batch_norm(dtype, name, x, values);
  cases.push_back(columns);
  cases.push_back(backward(RT_OP_BATCH_NORM_BACKWARD, dtype, name, x, columns));
  if (x.back() < 5) return;  // for rows of two numbers the gradient is 0 up to rounding
  const Builder rows = layer_norm(dtype, name, x, values);
  cases.push_back(rows);
  cases.push_back(backward(RT_OP_LAYER_NORM_BACKWARD, dtype, name, x, rows));
}

void normalisation_cases(Cases& cases, rt_dtype dtype) {
  for (const Dims& x : {Dims{64, 5}, Dims{2, 5, 7, 3}, Dims{3, 20, 20, 16}, Dims{9000, 2}}) {
    const int64_t far = 1 << 30;  // more than the number of elements: only one is special
    normalised_cases(cases, dtype, "one NaN", x, with(kNaN, far, 7, 1, {-2.0, 3.0, 11}));
    if (is_sixteen_bit(dtype)) continue;
    normalised_cases(cases, dtype, "large", x, {-1e15, 1e15, 11});
    if (dtype == RT_FLOAT64) continue;  // the reference computes in float64 too
    // The deviations are a few units in the last place of the numbers.
    const Values nearly{100.0, 100.001, 11};
    normalised_cases(cases, dtype, "nearly constant", x, nearly);
    // Every other element adds the same deviation to a sum of squares that is far larger already.
    for (const auto& [name, values] :
         {std::pair{" nearly constant", nearly}, std::pair{" one huge", with(1e15, far, 0)}})
      cases.push_back(Builder(RT_OP_BATCH_NORM_STATISTICS, dtype, label(x) + name)
                          .in(x, values)
                          .in({x[0]}, kWeightOfRows)
                          .out({1, 2 * x.back() + 1}));
  }
}

}  // namespace

void add_special_rows(Cases& cases, rt_dtype dtype) {
  reductions_cases(cases, dtype);
  softmax_cases(cases, dtype);
  losses_cases(cases, dtype);
  normalisation_cases(cases, dtype);
}

}  // namespace plugins::conformance
