// matmul and convolutions.
#include "plugins/conformance/forms.h"

namespace plugins::conformance {
namespace {

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
      square(2, 7, 5, 7, 3, 1, 2),    // odd in every size
      square(1, 3, 4, 8, 3, 0),       // one output pixel
      square(1, 1, 3, 2, 1, 0),       // one pixel
      square(4, 6, 32, 16, 3, 1),     // channels are multiples of 16
  };
  list.push_back({2, 8, 11, 6, 4, 3, 5, 2, 1, 1, 0, 2, 1});         // all sizes differ
  list.push_back({2, 12, 11, 3, 6, 3, 3, 1, 1, 2, 2, 2, 2, 2, 3});  // dilation
  Convolution grouped = square(2, 7, 12, 18, 3, 1);
  grouped.groups = 3;
  Convolution depthwise = square(2, 8, 16, 16, 3, 1, 2);
  depthwise.groups = 16;
  list.insert(list.end(), {grouped, depthwise});
  return list;
}

// Products whose result is stored before an activation. Vendors' libraries need rows of a multiple
// of 8 elements for that; 16 columns are, 13 are not.
void add_stores(Cases& cases, rt_dtype dtype) {
  for (const Product& p :
       {Product{{}, 9, 13, 11}, Product{{}, 9, 16, 11}, Product{{3}, 4, 16, 5}}) {
    const auto with = [&](const std::string& suffix) {
      return product(dtype, p, false, true, false).rename(suffix);
    };
    for (const int32_t f : {RT_ACTIVATION_GELU, RT_ACTIVATION_GELU_TANH}) {
      const std::string function = std::to_string(f);
      cases.push_back(with("store activation " + function).store().activation(f));
      cases.push_back(with("bias store activation " + function).bias().store().activation(f));
      cases.push_back(with("activation backward " + function).activation_backward(f));
    }
    cases.push_back(with("bias residual store activation")
                        .bias()
                        .residual()
                        .store()
                        .activation(RT_ACTIVATION_GELU_TANH));
    cases.push_back(with("bias store").bias().store());
  }
}

// Gradients of weights, with the gradient of the bias and, of operands in 16 bits, also in float32.
void add_weight_gradients(Cases& cases, rt_dtype dtype) {
  std::vector<rt_dtype> results = {dtype};
  if (is_sixteen_bit(dtype)) results.push_back(RT_FLOAT32);
  for (const rt_dtype result : results) {
    for (const Product& p :
         {Product{{}, 5, 7, 3}, Product{{}, 24, 16, 300}, Product{{}, 1, 9, 1},
          Product{{}, 40, 3, 1000}, Product{{}, 4, 6, 0}, Product{{}, 5, 0, 7}}) {
      if (result != dtype) cases.push_back(weight_gradient(dtype, p, result, false));
      cases.push_back(weight_gradient(dtype, p, result, true));
    }
    const Product fused{{}, 9, 16, 11};
    cases.push_back(weight_gradient(dtype, fused, result, true).rename("residual").residual());
    cases.push_back(weight_gradient(dtype, fused, result, result != dtype)
                        .rename("bias store activation")
                        .bias()
                        .store()
                        .activation(RT_ACTIVATION_GELU_TANH));
  }
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
  add_stores(cases, dtype);
  add_weight_gradients(cases, dtype);
}

void add_convolution(Cases& cases, rt_dtype dtype) {
  for (const Convolution& v : convolutions()) {
    cases.push_back(convolution_forward(dtype, v));
    cases.push_back(convolution_backward_data(dtype, v));
    cases.push_back(convolution_backward_weights(dtype, v, false));
    cases.push_back(convolution_backward_weights(dtype, v, true));
  }
  for (const Convolution& v : {square(2, 6, 5, 7, 3, 1), square(2, 6, 20, 50, 5, 0)}) {
    cases.push_back(
        convolution_forward(dtype, v).rename("bias relu").bias().activation(RT_ACTIVATION_RELU));
    cases.push_back(convolution_forward(dtype, v)
                        .rename("bias residual relu")
                        .bias()
                        .residual()
                        .activation(RT_ACTIVATION_RELU));
    cases.push_back(
        convolution_forward(dtype, v).rename("bias tanh").bias().activation(RT_ACTIVATION_TANH));
    cases.push_back(convolution_backward_data(dtype, v)
                        .rename("relu backward")
                        .activation_backward(RT_ACTIVATION_RELU));
    cases.push_back(convolution_backward_data(dtype, v).rename("residual").residual());
  }
}

}  // namespace plugins::conformance
