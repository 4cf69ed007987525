// The families (family.h) of batch, layer and root mean square normalisation and of split batch
// normalisation. An error is allowed if small disturbances of the operands cause as much. x is not
// disturbed (kExact of its row), because that would excuse rounding errors of the mean, which are
// faults of the implementation.
#include <algorithm>
#include <cmath>

#include "rt/operations.h"
#include "tests/differential/operations/family.h"

namespace differential {
namespace {

// Operands that forward and backward share have the same Values.
const Values kX{-2.0, 3.0, 11};
const Values kGamma{0.5, 1.5, 12};
const Values kPositive{0.5, 2.0};

constexpr double kHugeNorm = 1e10;  // keeps products of four numbers within float32

// x [n, c], [n, inner, c] or [n, inner, inner2, c]
std::vector<Parameter> x_parameters() {
  return {size_or_none("n", 70), choice("rank", {2, 2, 3, 4}),
          size("inner", 20),     size("inner2", 20),
          size("c", 140),        choice("epsilon", {5, 3, 8})};
}

Dims x_of(const Sizes& s) {
  switch (s["rank"]) {
    case 2:
      return {s["n"], s["c"]};
    case 3:
      return {s["n"], s["inner"], s["c"]};
    default:
      return {s["n"], s["inner"], s["inner2"], s["c"]};
  }
}

double epsilon_of(const Sizes& s) {
  double epsilon = 1;
  for (int64_t i = 0; i < s["epsilon"]; ++i) epsilon /= 10;
  return epsilon;
}

Builder batch_norm_forward(const Sizes& s, rt_dtype dtype) {
  const Dims c = {s["c"]};
  Builder b(RT_OP_BATCH_NORM, dtype, "");
  b.in(x_of(s), kX).wide_in(c, kGamma).wide_in(c).wide_in(c).wide_in(c, kPositive);
  b.out(x_of(s)).wide_out(c).wide_out(c).number(RT_ATTR_EPSILON, epsilon_of(s));
  return b.number(RT_ATTR_MOMENTUM, 0.2);
}

Builder layer_norm_forward(const Sizes& s, rt_dtype dtype) {
  const Dims c = {s["c"]};
  Builder b(RT_OP_LAYER_NORM, dtype, "");
  return b.in(x_of(s), kX)
      .wide_in(c, kGamma)
      .wide_in(c)
      .out(x_of(s))
      .number(RT_ATTR_EPSILON, epsilon_of(s));
}

Builder rms_norm_forward(const Sizes& s, rt_dtype dtype) {
  Builder b(RT_OP_RMS_NORM, dtype, "");
  b.in(x_of(s), kX).wide_in({s["c"]}, kGamma).out(x_of(s));
  return b.number(RT_ATTR_EPSILON, epsilon_of(s));
}

// `vectors`: of learned numbers, whose gradients follow dx.
Builder norm_backward(const char* operation, const Sizes& s, rt_dtype dtype, const Case& forward,
                      int vectors = 2) {
  const Dims c = {s["c"]};
  Builder b(operation, dtype, "");
  b.in(x_of(s), Values{-1.0, 1.0, 13}).in(x_of(s), kX).wide_in(c, kGamma);
  b.out(x_of(s)).wide_out(c);
  if (vectors > 1) b.wide_out(c);
  return b.number(RT_ATTR_EPSILON, epsilon_of(s)).forward(forward);
}

// A family of normalisations over x.
Family norm(const char* operation,
            const std::function<std::optional<Case>(const Sizes&, rt_dtype)>& build) {
  Family f{.operation = operation, .parameters = x_parameters()};
  f.build = build;
  f.huge = kHugeNorm;
  f.not_finite = NotFinite::kAny;
  return f;
}

// The norm of g = gamma * dy / deviation, as the scale of rounding errors (Family::terms). dx is g
// minus the mean of g and minus the projection of g on x; if a row (or channel) has few elements,
// these almost cancel. Moments are those of rows if `by_row`, otherwise those of columns.
double backward_terms(const Sizes& s, const std::vector<std::vector<double>>& inputs, bool by_row) {
  const std::vector<double>&dy = inputs[0], &x = inputs[1], &gamma = inputs[2];
  const size_t width = gamma.size(),
               groups = by_row ? x.size() / std::max<size_t>(width, 1) : width;
  const auto group_of = [&](size_t i) { return by_row ? i / width : i % width; };
  const double count = static_cast<double>(x.size()) / static_cast<double>(groups);
  std::vector<double> mean(groups), variance(groups);
  for (size_t i = 0; i < x.size(); ++i) mean[group_of(i)] += x[i] / count;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - mean[group_of(i)];
    variance[group_of(i)] += d * d / count;
  }
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double term = gamma[i % width] * dy[i];
    sum += term * term / (variance[group_of(i)] + epsilon_of(s));
  }
  return std::sqrt(sum);
}

void add_batch_norm(Families& families) {
  families.push_back(
      norm(RT_OP_BATCH_NORM, [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
        if (s["n"] == 0) return std::nullopt;  // without samples there is no mean
        return batch_norm_forward(s, dtype).get();
      }));
  families.push_back(
      norm(RT_OP_BATCH_NORM_INFERENCE, [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
        const Dims c = {s["c"]};
        Builder b(RT_OP_BATCH_NORM_INFERENCE, dtype, "");
        b.in(x_of(s), kX).wide_in(c, kGamma).wide_in(c).wide_in(c).wide_in(c, kPositive);
        return b.out(x_of(s)).number(RT_ATTR_EPSILON, epsilon_of(s)).get();
      }));
  families.push_back(
      norm(RT_OP_BATCH_NORM_BACKWARD, [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
        if (s["n"] == 0) return std::nullopt;
        return norm_backward(RT_OP_BATCH_NORM_BACKWARD, s, dtype, batch_norm_forward(s, dtype))
            .get();
      }));
  families.back().terms = [](const Sizes& s, const std::vector<std::vector<double>>& inputs) {
    return backward_terms(s, inputs, false);
  };
}

void add_layer_norm(Families& families) {
  families.push_back(
      norm(RT_OP_LAYER_NORM, [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
        return layer_norm_forward(s, dtype).get();
      }));
  families.push_back(
      norm(RT_OP_LAYER_NORM_BACKWARD, [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
        // If a row has two elements, its gradient is zero but for epsilon, so rounding decides it.
        if (s["c"] == 2) return std::nullopt;
        return norm_backward(RT_OP_LAYER_NORM_BACKWARD, s, dtype, layer_norm_forward(s, dtype))
            .get();
      }));
  families.back().terms = [](const Sizes& s, const std::vector<std::vector<double>>& inputs) {
    return backward_terms(s, inputs, true);
  };
}

void add_rms_norm(Families& families) {
  families.push_back(norm(RT_OP_RMS_NORM, [](const Sizes& s, rt_dtype dtype) {
    return std::optional<Case>(rms_norm_forward(s, dtype).get());
  }));
  families.push_back(
      norm(RT_OP_RMS_NORM_BACKWARD, [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
        // If a row has one element, its gradient is zero but for epsilon, so rounding decides it.
        if (s["c"] == 1) return std::nullopt;
        return norm_backward(RT_OP_RMS_NORM_BACKWARD, s, dtype, rms_norm_forward(s, dtype), 1)
            .get();
      }));
  families.back().terms = [](const Sizes& s, const std::vector<std::vector<double>>& inputs) {
    return backward_terms(s, inputs, true);
  };
}

// Every n-th row is padding; 0: none.
Parameter padding_parameter() { return choice("padding", {0, 0, 0, 3, 2, 1}); }
Values sample_weights(const Sizes& s) { return {0.1, 1.0, 1, s["padding"]}; }
Dims moments_of(const Sizes& s) { return {2 * s["c"] + 1}; }

std::optional<Case> batch_norm_statistics(const Sizes& s, rt_dtype dtype) {
  return Builder(RT_OP_BATCH_NORM_STATISTICS, dtype, "")
      .in(x_of(s), kX)
      .wide_in({s["n"]}, sample_weights(s))
      .wide_out({1, 2 * s["c"] + 1})
      .get();
}

std::optional<Case> batch_norm_apply(const Sizes& s, rt_dtype dtype) {
  const Dims c = {s["c"]};
  Builder b(RT_OP_BATCH_NORM_APPLY, dtype, "");
  b.in(x_of(s), kX).wide_in(c, kGamma).wide_in(c).wide_in(moments_of(s), kPositive).out(x_of(s));
  return b.number(RT_ATTR_EPSILON, epsilon_of(s)).get();
}

std::optional<Case> batch_norm_backward_statistics(const Sizes& s, rt_dtype dtype) {
  Builder b(RT_OP_BATCH_NORM_BACKWARD_STATISTICS, dtype, "");
  b.in(x_of(s)).in(x_of(s), kX).wide_in(moments_of(s), kPositive).wide_out({1, 2 * s["c"]});
  return b.number(RT_ATTR_EPSILON, epsilon_of(s)).get();
}

std::optional<Case> batch_norm_backward_apply(const Sizes& s, rt_dtype dtype) {
  Builder b(RT_OP_BATCH_NORM_BACKWARD_APPLY, dtype, "");
  b.in(x_of(s)).in(x_of(s), kX).wide_in({s["c"]}, kGamma).wide_in(moments_of(s), kPositive);
  b.wide_in({2 * s["c"]}).wide_in({s["n"]}, sample_weights(s)).out(x_of(s));
  return b.number(RT_ATTR_EPSILON, epsilon_of(s)).get();
}

Family batch_norm_merge() {
  Family f{.operation = RT_OP_BATCH_NORM_MERGE,
           .parameters = {size("parts", 20), size("c", 140),
                          choice("without_samples", {0, 0, 2, 1}), flag("one_part")}};
  f.build = [](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const Dims c = {s["c"]};
    const int64_t width = 2 * s["c"] + 1, parts = s["one_part"] ? 1 : s["parts"];
    return Builder(RT_OP_BATCH_NORM_MERGE, dtype, "")
        .in({parts, width}, Values{1.0, 4.0, 1, width * s["without_samples"]})
        .in(c)
        .in(c, kPositive)
        .out({width})
        .out(c)
        .out(c)
        .number(RT_ATTR_MOMENTUM, 0.2)
        .get();
  };
  f.huge = kHugeNorm;
  f.not_finite = NotFinite::kAny;
  f.finite_inputs = [](const Sizes&) { return 1u; };
  return f;
}

void add_batch_norm_parts(Families& families) {
  families.push_back(norm(RT_OP_BATCH_NORM_STATISTICS, batch_norm_statistics));
  families.back().parameters.push_back(padding_parameter());
  // The contract wants finite padding.
  families.back().finite_inputs = [](const Sizes& s) { return s["padding"] > 0 ? 1u : 0u; };
  families.push_back(norm(RT_OP_BATCH_NORM_APPLY, batch_norm_apply));
  families.push_back(norm(RT_OP_BATCH_NORM_BACKWARD_STATISTICS, batch_norm_backward_statistics));
  families.push_back(norm(RT_OP_BATCH_NORM_BACKWARD_APPLY, batch_norm_backward_apply));
  families.back().ends_with_count = 1u << 3;  // the n of `moments` divides the sums
  families.back().parameters.push_back(padding_parameter());
  families.push_back(batch_norm_merge());
}

}  // namespace

void add_normalisation(Families& families) {
  add_batch_norm(families);
  add_layer_norm(families);
  add_rms_norm(families);
  add_batch_norm_parts(families);
}

}  // namespace differential
