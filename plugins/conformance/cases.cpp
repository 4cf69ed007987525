// Puts the lists of cases of all operations together, and adds those with empty batches and
// dimensions.
#include <algorithm>
#include <set>

#include "plugins/conformance/builder.h"

namespace plugins::conformance {

std::string label(const Dims& dims) {
  if (dims.empty()) return "scalar";
  std::string text = std::to_string(dims.front());
  for (size_t i = 1; i < dims.size(); ++i) text.append("x").append(std::to_string(dims[i]));
  return text;
}

namespace {

// A rank without a sample of a small last batch runs operations on empty batches: they must do
// nothing, or write zeros where they compute sums. These cases are not mandatory.
void add_empty_batches(Cases& cases, rt_dtype dtype) {
  const Dims x = {0, 6, 6, 4}, w = {8, 3, 3, 4}, y = {0, 4, 4, 8}, pooled = {0, 3, 3, 4};
  const std::vector<host::Attribute> window = {{RT_ATTR_KERNEL_H, int64_t{2}},
                                               {RT_ATTR_KERNEL_W, int64_t{2}},
                                               {RT_ATTR_STRIDE_H, int64_t{2}},
                                               {RT_ATTR_STRIDE_W, int64_t{2}}};
  const auto empty = [dtype](const char* op) { return Builder(op, dtype, "empty batch"); };
  cases.push_back(empty(RT_OP_CONV2D).in(x).in(w).out(y));
  cases.push_back(empty(RT_OP_CONV2D_BACKWARD_DATA).in(y).in(w).out(x));
  cases.push_back(empty(RT_OP_CONV2D_BACKWARD_WEIGHTS).in(x).in(y).out(w));
  cases.push_back(empty(RT_OP_AVG_POOL2D).in(x).out(pooled).attributes(window));
  cases.push_back(empty(RT_OP_AVG_POOL2D_BACKWARD).in(pooled).out(x).attributes(window));
  cases.push_back(empty(RT_OP_MATMUL)
                      .in({0, 3})
                      .in({0, 4})
                      .out({3, 4})
                      .integer(RT_ATTR_TRANSPOSE_A, 1));  // the gradient of the weights
  cases.push_back(empty(RT_OP_ACTIVATION).in(x).out(x).integer(RT_ATTR_FUNCTION, 1));
  cases.push_back(empty(RT_OP_ADD).in(x).in({4}).out(x));
  cases.push_back(empty(RT_OP_REDUCE)
                      .in({0, 6})
                      .out({6})
                      .integer(RT_ATTR_FUNCTION, RT_REDUCE_SUM)
                      .integer(RT_ATTR_AXES, 1));
  cases.push_back(empty(RT_OP_CROSS_ENTROPY)
                      .in({0, 10})
                      .in_of(RT_INT32, {0}, Values{0, 10})
                      .wide_in({0})
                      .wide_out({1}));
  cases.push_back(empty(RT_OP_CROSS_ENTROPY_WITH_GRADIENT)
                      .in({0, 10})
                      .in_of(RT_INT32, {0}, Values{0, 10})
                      .wide_in({0})
                      .wide_in({1})
                      .wide_out({1})
                      .out({0, 10})
                      .wide_out({1}));
  cases.push_back(empty(RT_OP_SQUARE_SUM).in({0}).wide_out({1}));
  cases.push_back(empty(RT_OP_COPY).in({0, 3}).out({0, 3}));
}

// Any dimension may be 0; an operand that is repeated along it still has elements.
void add_empty_dimensions(Cases& cases, rt_dtype dtype) {
  const auto empty = [dtype](const char* op, const Dims& dims) {
    return Builder(op, dtype, "empty " + label(dims));
  };
  for (const Dims& x : {Dims{0}, Dims{3, 0}, Dims{2, 0, 4}, Dims{0, 3, 2}}) {
    for (const char* op : {RT_OP_ADD, RT_OP_SUBTRACT, RT_OP_MULTIPLY, RT_OP_DIVIDE}) {
      cases.push_back(empty(op, x).in(x).in(x).out(x));
      cases.push_back(empty(op, x).in(x).in({1}).out(x).rename("and one number"));
    }
    cases.push_back(
        empty(RT_OP_ACTIVATION, x).in(x).out(x).integer(RT_ATTR_FUNCTION, RT_ACTIVATION_GELU));
    cases.push_back(empty(RT_OP_SCALE, x).in(x).out(x).number(RT_ATTR_ALPHA, 2.0));
    cases.push_back(empty(RT_OP_FILL, x).out(x).number(RT_ATTR_VALUE, 2.0));
    for (int64_t axes = 1; axes < 1 << x.size(); ++axes) {
      Dims y;
      for (size_t i = 0; i < x.size(); ++i) {
        if (!(axes >> i & 1)) y.push_back(x[i]);
      }
      cases.push_back(empty(RT_OP_REDUCE, x)
                          .in(x)
                          .out(y)
                          .integer(RT_ATTR_FUNCTION, RT_REDUCE_SUM)
                          .integer(RT_ATTR_AXES, axes)
                          .rename("axes " + std::to_string(axes)));
    }
  }
  cases.push_back(
      empty(RT_OP_TRANSPOSE, {3, 0}).in({3, 0}).out({0, 3}).integer(RT_ATTR_PERMUTATION, 0x01));
  cases.push_back(empty(RT_OP_MATMUL, {3, 0}).in({3, 0}).in({0, 4}).out({3, 4}));
  cases.push_back(empty(RT_OP_MATMUL, {0, 5})
                      .in({3, 0})
                      .in({5, 0})
                      .out({3, 5})
                      .integer(RT_ATTR_TRANSPOSE_B, 1));
}

}  // namespace

std::vector<Case> all_cases() {
  Cases cases;
  for (const rt_dtype dtype : {RT_FLOAT32, RT_FLOAT64, RT_FLOAT16, RT_BFLOAT16}) {
    add_matmul(cases, dtype);
    add_convolution(cases, dtype);
    add_pooling(cases, dtype);
    add_conv_pool(cases, dtype);
    add_elementwise(cases, dtype);
    add_gated(cases, dtype);
    add_reductions(cases, dtype);
    add_losses(cases, dtype);
    add_normalisation(cases, dtype);
    add_batch_norm_parts(cases, dtype);
    add_attention(cases, dtype);
    add_movement(cases, dtype);
    add_optimizers(cases, dtype);
    add_empty_batches(cases, dtype);
    add_empty_dimensions(cases, dtype);
    add_special_numbers(cases, dtype);
    add_special_rows(cases, dtype);
  }
  return cases;
}

std::vector<std::string> covered_operations() {
  std::vector<std::string> names;
  for (const Case& c : all_cases()) {
    if (std::find(names.begin(), names.end(), c.operation.name) == names.end()) {
      names.push_back(c.operation.name);
    }
  }
  return names;
}

std::vector<Case> cases_of(const std::string& operation) {
  Cases cases = all_cases();
  std::erase_if(cases, [&](const Case& c) { return c.operation.name != operation; });
  return cases;
}

std::vector<Case> cases_of(const std::string& operation, const host::Device& device) {
  Cases cases = cases_of(operation);
  const uint64_t computed = device.properties().compute_dtypes;
  std::erase_if(cases, [&](const Case& c) { return (computed & RT_DTYPE_BIT(c.dtype)) == 0; });
  return cases;
}

std::string count_text(const std::vector<Case>& cases) {
  std::set<std::string> operations;
  std::set<rt_dtype> types;
  for (const Case& c : cases) {
    operations.insert(c.operation.name);
    types.insert(c.dtype);
  }
  return rt::sdk::format("%zu operations x %zu types, %zu cases", operations.size(), types.size(),
                         cases.size());
}

}  // namespace plugins::conformance
