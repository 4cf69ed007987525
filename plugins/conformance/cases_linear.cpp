// matmul and the convolutions
#include "plugins/conformance/builder.h"

namespace plugins::conformance {
namespace {

struct Product {
  Dims leading;
  int64_t m, n, k;
};

// a [leading..., m, k] and b [k, n] or [leading..., k, n], each transposed or not.
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

// A convolution by its sizes; P and Q follow.
struct Convolution {
  int64_t n, h, w, c, o, kernel_h, kernel_w;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  int64_t dilation_h = 1, dilation_w = 1, groups = 1;

  Dims x() const { return {n, h, w, c}; }
  Dims weights() const { return {o, kernel_h, kernel_w, c / groups}; }
  Dims y() const {
    return {n, (h + pad_top + pad_bottom - dilation_h * (kernel_h - 1) - 1) / stride_h + 1,
            (w + pad_left + pad_right - dilation_w * (kernel_w - 1) - 1) / stride_w + 1, o};
  }
  std::vector<host::Attribute> attributes() const {
    return {{RT_ATTR_STRIDE_H, stride_h},     {RT_ATTR_STRIDE_W, stride_w},
            {RT_ATTR_PAD_TOP, pad_top},       {RT_ATTR_PAD_BOTTOM, pad_bottom},
            {RT_ATTR_PAD_LEFT, pad_left},     {RT_ATTR_PAD_RIGHT, pad_right},
            {RT_ATTR_DILATION_H, dilation_h}, {RT_ATTR_DILATION_W, dilation_w},
            {RT_ATTR_GROUPS, groups}};
  }
  std::string name() const {
    return label(x()) + " " + label(weights()) + " s" + label({stride_h, stride_w}) + " p" +
           label({pad_top, pad_bottom, pad_left, pad_right}) + " d" +
           label({dilation_h, dilation_w}) + " g" + std::to_string(groups);
  }
};

Convolution square(int64_t n, int64_t size, int64_t c, int64_t o, int64_t kernel, int64_t padding,
                   int64_t stride = 1) {
  Convolution v{n, size, size, c, o, kernel, kernel};
  v.stride_h = v.stride_w = stride;
  v.pad_top = v.pad_bottom = v.pad_left = v.pad_right = padding;
  return v;
}

std::vector<Convolution> convolutions() {
  std::vector<Convolution> list = {
      square(2, 10, 1, 20, 3, 0),     // LeNet's first layer, small
      square(2, 9, 20, 50, 5, 0),     // LeNet's second layer, small
      square(1, 7, 3, 64, 7, 3, 2),   // ResNet's stem
      square(1, 8, 64, 64, 3, 1),     // a residual block
      square(3, 8, 64, 50, 1, 0),     // 1x1
      square(2, 9, 16, 32, 1, 0, 2),  // 1x1 with a stride: a residual projection
      square(2, 7, 5, 7, 3, 1, 2),    // odd everything
      square(1, 3, 4, 8, 3, 0),       // one output pixel
      square(1, 1, 3, 2, 1, 0),       // one pixel
      square(4, 6, 32, 16, 3, 1),     // channels that fill blocks
  };
  list.push_back({2, 8, 11, 6, 4, 3, 5, 2, 1, 1, 0, 2, 1});         // unequal in every direction
  list.push_back({2, 12, 11, 3, 6, 3, 3, 1, 1, 2, 2, 2, 2, 2, 3});  // dilation
  Convolution grouped = square(2, 7, 12, 18, 3, 1);
  grouped.groups = 3;
  Convolution depthwise = square(2, 8, 16, 16, 3, 1, 2);
  depthwise.groups = 16;
  list.insert(list.end(), {grouped, depthwise});
  return list;
}

Builder forward(rt_dtype dtype, const Convolution& v) {
  Builder b(RT_OP_CONV2D, dtype, v.name());
  b.in(v.x()).in(v.weights()).out(v.y()).attributes(v.attributes());
  return b;
}

Builder backward_data(rt_dtype dtype, const Convolution& v) {
  Builder b(RT_OP_CONV2D_BACKWARD_DATA, dtype, v.name());
  b.in(v.y()).in(v.weights()).out(v.x()).attributes(v.attributes());
  return b;
}

Builder backward_weights(rt_dtype dtype, const Convolution& v, bool with_bias) {
  Builder b(RT_OP_CONV2D_BACKWARD_WEIGHTS, dtype, v.name() + (with_bias ? " with db" : ""));
  b.in(v.x()).in(v.y()).out(v.weights()).attributes(v.attributes());
  if (with_bias) b.out({v.o});
  return b;
}

}  // namespace

void add_matmul(Cases& cases, rt_dtype dtype) {
  const std::vector<Product> products = {{{}, 1, 1, 1},    {{}, 5, 7, 3},    {{}, 64, 10, 128},
                                         {{}, 33, 17, 65}, {{}, 1, 50, 800}, {{}, 256, 64, 20}};
  for (const Product& p : products) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        cases.push_back(product(dtype, p, ta, tb, false).mandatory());
      }
    }
  }
  const Product batched{{3, 2}, 5, 4, 6};
  for (const bool ta : {false, true}) {
    cases.push_back(product(dtype, batched, ta, true, true).mandatory());
    cases.push_back(product(dtype, batched, ta, false, false).mandatory());
  }
  cases.push_back(product(dtype, {{}, 0, 4, 3}, false, false, false));
  const Product fused{{}, 9, 13, 11};
  const auto with = [&](const std::string& suffix, auto&& add_post_operations) {
    Builder b = product(dtype, fused, false, true, false).rename(suffix);
    add_post_operations(b);
    cases.push_back(b);
  };
  with("bias", [](Builder& b) { b.bias(); });
  with("bias residual", [](Builder& b) { b.bias().residual(); });
  with("relu backward", [](Builder& b) { b.activation_backward(RT_ACTIVATION_RELU); });
  for (int32_t f = RT_ACTIVATION_RELU; f <= RT_ACTIVATION_SIGMOID; ++f) {
    with("bias activation " + std::to_string(f), [f](Builder& b) { b.bias().activation(f); });
  }
}

void add_convolution(Cases& cases, rt_dtype dtype) {
  for (const Convolution& v : convolutions()) {
    cases.push_back(forward(dtype, v));
    cases.push_back(backward_data(dtype, v));
    cases.push_back(backward_weights(dtype, v, false));
    cases.push_back(backward_weights(dtype, v, true));
  }
  for (const Convolution& v : {square(2, 6, 5, 7, 3, 1), square(2, 6, 20, 50, 5, 0)}) {
    cases.push_back(forward(dtype, v).rename("bias relu").bias().activation(RT_ACTIVATION_RELU));
    cases.push_back(forward(dtype, v)
                        .rename("bias residual relu")
                        .bias()
                        .residual()
                        .activation(RT_ACTIVATION_RELU));
    cases.push_back(forward(dtype, v).rename("bias tanh").bias().activation(RT_ACTIVATION_TANH));
    cases.push_back(
        backward_data(dtype, v).rename("relu backward").activation_backward(RT_ACTIVATION_RELU));
    cases.push_back(backward_data(dtype, v).rename("residual").residual());
  }
}

}  // namespace plugins::conformance
