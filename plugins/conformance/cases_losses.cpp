// Softmax and losses.
#include "plugins/conformance/builder.h"

namespace plugins::conformance {
namespace {

const Values kLogits{-5.0, 5.0};
const Values kWeight{0.1, 1.0, 3, 4};  // every fourth row has weight 0: padding

Builder classification(const char* op, rt_dtype dtype, const Dims& logits) {
  const Dims rows(logits.begin(), logits.end() - 1);
  const Values labels{0.0, static_cast<double>(logits.back()), 2};
  Builder b(op, dtype, label(logits));
  b.in(logits, kLogits).in_of(RT_INT32, rows, labels).wide_in(rows, kWeight);
  return b;
}

Builder regression(const char* op, rt_dtype dtype, const Dims& y) {
  Builder b(op, dtype, label(y));
  b.in(y).in(y).wide_in({y[0]}, kWeight);
  return b;
}

// With and without the number of correct predictions.
void add_cross_entropy_with_gradient(Cases& cases, rt_dtype dtype, const Dims& logits) {
  for (const bool counts : {false, true}) {
    const char* const op = RT_OP_CROSS_ENTROPY_WITH_GRADIENT;
    Builder b = classification(op, dtype, logits).wide_in({1}).wide_out({1}).out(logits);
    if (counts) b.wide_out({1}).rename("with count");
    cases.push_back(b);
  }
}

// A slice of the classes that begins with class 3.
void add_cross_entropy_in_parts(Cases& cases, rt_dtype dtype, const Dims& logits) {
  const Dims labels(logits.begin(), logits.end() - 1);
  int64_t rows = 1;
  for (const int64_t d : labels) rows *= d;
  const Values classes{0.0, static_cast<double>(logits.back() + 5), 2};
  const std::string name = label(logits);
  cases.push_back(Builder(RT_OP_CROSS_ENTROPY_STATISTICS, dtype, name)
                      .in(logits, kLogits)
                      .in_of(RT_INT32, labels, classes)
                      .wide_out({1, rows, 4})
                      .integer(RT_ATTR_FIRST_CLASS, 3));
  cases.push_back(Builder(RT_OP_CROSS_ENTROPY_BACKWARD_APPLY, dtype, name)
                      .in(logits, kLogits)
                      .in_of(RT_INT32, labels, classes)
                      .wide_in(labels, kWeight)
                      .wide_in({1})
                      .wide_in({rows, 2}, Values{3.0, 5.0})
                      .out(logits)
                      .integer(RT_ATTR_FIRST_CLASS, 3));
  if (is_sixteen_bit(dtype)) return;
  // All values are positive, because sums of exponentials are.
  cases.push_back(Builder(RT_OP_CROSS_ENTROPY_MERGE, dtype, name)
                      .in({logits.back(), rows, 4}, Values{0.5, 2.0, 1, 8})
                      .in(labels, kWeight)
                      .out({1})
                      .out({rows, 2})
                      .out({1}));
}

}  // namespace

void add_losses(Cases& cases, rt_dtype dtype) {
  // Kernels hold short rows in registers and read long ones in parts, so widths of both kinds are
  // here, and odd ones, whose rows are not aligned.
  const std::vector<Dims> shapes = {{1, 1},    {5, 3},    {64, 10},   {3, 4, 17},
                                    {7, 1000}, {3, 4099}, {2, 27001}, {2, 70001}};
  for (const Dims& dims : shapes) {
    const std::string name = label(dims);
    for (const char* op : {RT_OP_SOFTMAX, RT_OP_LOG_SOFTMAX}) {
      cases.push_back(Builder(op, dtype, name).in(dims, kLogits).out(dims));
    }
    cases.push_back(
        Builder(RT_OP_SOFTMAX_BACKWARD, dtype, name).in(dims).in(dims, Values{0.0, 0.2}).out(dims));
    cases.push_back(Builder(RT_OP_LOG_SOFTMAX_BACKWARD, dtype, name)
                        .in(dims)
                        .in(dims, Values{-5.0, -1.0})
                        .out(dims));
    cases.push_back(classification(RT_OP_CROSS_ENTROPY, dtype, dims).wide_out({1}).mandatory());
    cases.push_back(classification(RT_OP_CROSS_ENTROPY_BACKWARD, dtype, dims)
                        .wide_in({1})
                        .out(dims)
                        .mandatory());
    cases.push_back(classification(RT_OP_CORRECT_COUNT, dtype, dims).wide_out({1}).mandatory());
    add_cross_entropy_with_gradient(cases, dtype, dims);
    add_cross_entropy_in_parts(cases, dtype, dims);
  }
  for (const Dims& dims : {Dims{5}, Dims{6, 1}, Dims{64, 10}, Dims{2, 3, 4, 5}}) {
    cases.push_back(regression(RT_OP_MEAN_SQUARED_ERROR, dtype, dims).wide_out({1}));
    cases.push_back(
        regression(RT_OP_MEAN_SQUARED_ERROR_BACKWARD, dtype, dims).wide_in({1}).out(dims));
  }
}

}  // namespace plugins::conformance
