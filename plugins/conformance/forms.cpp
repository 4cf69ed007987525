// Builds descriptions of products, convolutions and poolings from a few sizes.
#include "plugins/conformance/forms.h"

namespace plugins::conformance {

Builder product(rt_dtype dtype, const Product& p, bool ta, bool tb, bool b_has_batch) {
  const auto with = [](Dims dims, int64_t rows, int64_t columns) {
    dims.insert(dims.end(), {rows, columns});
    return dims;
  };
  const Dims a = ta ? with(p.leading, p.k, p.m) : with(p.leading, p.m, p.k);
  const Dims b_leading = b_has_batch ? p.leading : Dims{};
  const Dims b = tb ? with(b_leading, p.n, p.k) : with(b_leading, p.k, p.n);
  Builder builder(RT_OP_MATMUL, dtype,
                  label(a) + (ta ? "t" : "") + " " + label(b) + (tb ? "t" : ""));
  builder.in(a).in(b).out(with(p.leading, p.m, p.n));
  builder.integer(RT_ATTR_TRANSPOSE_A, ta).integer(RT_ATTR_TRANSPOSE_B, tb);
  return builder;
}

Builder weight_gradient(rt_dtype dtype, const Product& p, rt_dtype result, bool with_sums) {
  const Dims a = {p.k, p.m}, b = {p.k, p.n};
  Builder builder(RT_OP_MATMUL, dtype,
                  label(a) + "t " + label(b) + " to " + rt::sdk::to_string(result) +
                      (with_sums ? " with d" : ""));
  builder.in(a).in(b).out_of(result, {p.m, p.n}).integer(RT_ATTR_TRANSPOSE_A, 1);
  if (with_sums) builder.out_of(result, {p.m});
  return builder;
}

Builder convolution_forward(rt_dtype dtype, const Convolution& v) {
  Builder b(RT_OP_CONV2D, dtype, v.name());
  b.in(v.x()).in(v.weights()).out(v.y()).attributes(v.attributes());
  return b;
}

Builder convolution_backward_data(rt_dtype dtype, const Convolution& v) {
  Builder b(RT_OP_CONV2D_BACKWARD_DATA, dtype, v.name());
  b.in(v.y()).in(v.weights()).out(v.x()).attributes(v.attributes());
  return b;
}

Builder convolution_backward_weights(rt_dtype dtype, const Convolution& v, bool with_bias) {
  Builder b(RT_OP_CONV2D_BACKWARD_WEIGHTS, dtype, v.name() + (with_bias ? " with db" : ""));
  b.in(v.x()).in(v.y()).out(v.weights()).attributes(v.attributes());
  if (with_bias) b.out({v.o});
  return b;
}

Builder pooling_forward(const char* operation, rt_dtype dtype, const Pooling& p, bool average) {
  Builder b(operation, dtype, p.name());
  b.in(p.x()).out(p.y()).attributes(p.attributes(average));
  return b;
}

Builder pooling_backward(const char* operation, rt_dtype dtype, const Pooling& p, bool average) {
  Builder b(operation, dtype, p.name());
  Values dy;
  dy.seed = 7;
  b.in(p.y(), dy).out(p.x()).attributes(p.attributes(average));
  return b;
}

Builder conv_pool_forward(rt_dtype dtype, const ConvPool& v) {
  Builder b(RT_OP_CONV2D_POOL2D, dtype, v.name());
  b.in(v.convolution.x()).in(v.convolution.weights()).in({v.convolution.o}).out(v.y());
  return b.attributes(v.attributes());
}

Builder conv_pool_backward_weights(rt_dtype dtype, const ConvPool& v) {
  Builder b(RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS, dtype, v.name());
  Values dy;
  dy.seed = 7;
  b.in(v.convolution.x()).in(v.y(), dy).out(v.convolution.weights()).out({v.convolution.o});
  return b.attributes(v.attributes());
}

}  // namespace plugins::conformance
