// Families of softmax and the losses. About every third case has padding rows, whose weight is 0.
#include <cmath>

#include "rt/operations.h"
#include "tests/differential/operations/family.h"

namespace differential {
namespace {

const Values kLogits{-5.0, 5.0};

// Logits have the shape [rows, classes], or one with two leading dimensions.
std::vector<Parameter> row_parameters() {
  return {size_or_none("rows", 300), choice("inner_rows", {0, 0, 0, 1, 3}), size("classes", 300)};
}

std::vector<Parameter> weighted_parameters() {
  std::vector<Parameter> list = row_parameters();
  list.push_back(choice("padding", {0, 0, 0, 3, 2, 1}));  // every n-th row is padding; 0: none
  return list;
}

Dims rows_of(const Sizes& s) {
  if (s["inner_rows"] == 0) return {s["rows"]};
  return {s["rows"], s["inner_rows"]};
}

Dims logits_of(const Sizes& s) {
  Dims dims = rows_of(s);
  dims.push_back(s["classes"]);
  return dims;
}

int64_t row_count(const Sizes& s) {
  return s["rows"] * (s["inner_rows"] == 0 ? 1 : s["inner_rows"]);
}

Values weights_of(const Sizes& s) { return {0.1, 1.0, 1, s["padding"]}; }

// Softmax and its backward operation, in which all operands have the shape of x.
Family rows_family(const char* operation, const std::vector<Values>& inputs) {
  Family f{.operation = operation, .parameters = row_parameters()};
  f.build = [operation, inputs](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    Builder b(operation, dtype, "");
    for (const Values& v : inputs) b.in(logits_of(s), v);
    return b.out(logits_of(s)).get();
  };
  f.huge = 1e15;
  return f;
}

Builder classification(const char* operation, const Sizes& s, rt_dtype dtype) {
  const Values labels{0.0, static_cast<double>(s["classes"]), 2};
  Builder b(operation, dtype, "");
  b.in(logits_of(s), kLogits).in_of(RT_INT32, rows_of(s), labels);
  return b.wide_in(rows_of(s), weights_of(s));
}

// The gradient of the right class is (probability - 1) times weight times dloss. Returns the norm
// of the terms that belong to the 1, which cancel against the probabilities.
double weighted_ones(const Sizes&, const std::vector<std::vector<double>>& inputs) {
  double sum = 0;
  for (double weight : inputs[2]) sum += weight * weight;
  return std::sqrt(sum) * std::abs(inputs[3].at(0));
}

// The loss of a row is the logarithm of a sum with one term equal to 1, times the weight of the
// row. Returns the sum of the magnitudes of these weights.
double weights_of_ones(const Sizes&, const std::vector<std::vector<double>>& inputs) {
  double sum = 0;
  for (double weight : inputs[2]) sum += std::abs(weight);
  return sum;
}

Family classification_family(const char* operation, bool backward) {
  Family f{.operation = operation, .parameters = weighted_parameters()};
  f.build = [operation, backward](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    Builder b = classification(operation, s, dtype);
    if (backward) return b.wide_in({1}).out(logits_of(s)).get();
    return b.wide_out({1}).get();
  };
  f.terms = backward ? weighted_ones : weights_of_ones;
  if (backward) {
    f.not_finite = NotFinite::kAny;
    f.huge = 1e15;  // bounds weight times dloss
  }
  return f;
}

// Loss, gradient and number of correct predictions in one.
Family with_gradient() {
  Family f{.operation = RT_OP_CROSS_ENTROPY_WITH_GRADIENT, .parameters = weighted_parameters()};
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    return classification(RT_OP_CROSS_ENTROPY_WITH_GRADIENT, s, dtype)
        .wide_in({1})
        .wide_out({1})
        .out(logits_of(s))
        .wide_out({1})
        .get();
  };
  f.terms = [](const Sizes& s, const std::vector<std::vector<double>>& inputs) {
    return weights_of_ones(s, inputs) + weighted_ones(s, inputs);
  };
  f.not_finite = NotFinite::kAny;
  f.huge = 1e15;
  return f;
}

// The operand holds classes from first_class on of a larger set; some labels are classes before or
// behind these.
Values labels_of_part(const Sizes& s) {
  return {0.0, static_cast<double>(s["first_class"] + s["classes"] + 3), 2};
}

Family cross_entropy_statistics() {
  Family f{.operation = RT_OP_CROSS_ENTROPY_STATISTICS, .parameters = row_parameters()};
  f.parameters.push_back(choice("first_class", {0, 3, 40}));
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    return Builder(RT_OP_CROSS_ENTROPY_STATISTICS, dtype, "")
        .in(logits_of(s), kLogits)
        .in_of(RT_INT32, rows_of(s), labels_of_part(s))
        .wide_out({1, row_count(s), 4})
        .integer(RT_ATTR_FIRST_CLASS, s["first_class"])
        .get();
  };
  return f;
}

Family cross_entropy_merge() {
  Family f{.operation = RT_OP_CROSS_ENTROPY_MERGE, .parameters = weighted_parameters()};
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    return Builder(RT_OP_CROSS_ENTROPY_MERGE, dtype, "")
        .in({s["classes"], row_count(s), 4}, Values{0.5, 2.0, 1, 8})
        .in(rows_of(s), weights_of(s))
        .out({1})
        .out({row_count(s), 2})
        .out({1})
        .get();
  };
  return f;
}

Family cross_entropy_backward_apply() {
  Family f{.operation = RT_OP_CROSS_ENTROPY_BACKWARD_APPLY, .parameters = weighted_parameters()};
  f.parameters.push_back(choice("first_class", {0, 3, 40}));
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    return Builder(RT_OP_CROSS_ENTROPY_BACKWARD_APPLY, dtype, "")
        .in(logits_of(s), kLogits)
        .in_of(RT_INT32, rows_of(s), labels_of_part(s))
        .wide_in(rows_of(s), weights_of(s))
        .wide_in({1})
        .wide_in({row_count(s), 2}, Values{3.0, 5.0})
        .out(logits_of(s))
        .integer(RT_ATTR_FIRST_CLASS, s["first_class"])
        .get();
  };
  f.not_finite = NotFinite::kAny;
  f.huge = 15;  // keeps exp(logit - m), a factor of the result, within float32
  f.terms = weighted_ones;
  return f;
}

Family regression(const char* operation, bool backward) {
  Family f{.operation = operation, .parameters = weighted_parameters()};
  f.build = [operation, backward](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const Dims y = logits_of(s);
    Builder b(operation, dtype, "");
    b.in(y).in(y).wide_in({y[0]}, weights_of(s));
    if (backward) return b.wide_in({1}).out(y).get();
    return b.wide_out({1}).get();
  };
  f.huge = 1e15;
  // A square that is 0 in float32, but not in float64, may meet an infinite weight.
  f.not_finite = NotFinite::kAny;
  return f;
}

}  // namespace

void add_losses(Families& families) {
  families.push_back(rows_family(RT_OP_SOFTMAX, {kLogits}));
  families.push_back(rows_family(RT_OP_LOG_SOFTMAX, {kLogits}));
  families.push_back(rows_family(RT_OP_SOFTMAX_BACKWARD, {Values{}, Values{0.0, 0.2}}));
  families.push_back(rows_family(RT_OP_LOG_SOFTMAX_BACKWARD, {Values{}, Values{-5.0, -1.0}}));
  families.back().huge = 30;
  // An infinite sum is multiplied by the probability of a class, which may be 0 in float32 but not
  // in float64.
  families.back().not_finite = NotFinite::kAny;
  families.push_back(classification_family(RT_OP_CROSS_ENTROPY, false));
  families.push_back(classification_family(RT_OP_CROSS_ENTROPY_BACKWARD, true));
  families.push_back(classification_family(RT_OP_CORRECT_COUNT, false));
  families.push_back(with_gradient());
  families.push_back(cross_entropy_statistics());
  families.push_back(cross_entropy_merge());
  families.push_back(cross_entropy_backward_apply());
  families.push_back(regression(RT_OP_MEAN_SQUARED_ERROR, false));
  families.push_back(regression(RT_OP_MEAN_SQUARED_ERROR_BACKWARD, true));
}

}  // namespace differential
