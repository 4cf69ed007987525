// Convolutions with a pooling behind them, and the gradients of their weights.
#include "plugins/conformance/forms.h"
#include "plugins/conformance/special.h"

namespace plugins::conformance {
namespace {

constexpr int64_t kNone = 0, kRelu = RT_ACTIVATION_RELU, kTanh = RT_ACTIVATION_TANH;

std::vector<ConvPool> conv_pools() {
  Convolution padded{2, 10, 12, 3, 16, 5, 5};
  padded.pad_top = padded.pad_bottom = padded.pad_left = padded.pad_right = 2;
  Convolution strided{3, 15, 12, 2, 7, 3, 4, 2, 1, 1, 0, 2, 1};
  const Convolution dilated{2, 12, 11, 3, 5, 3, 2, 1, 1, 2, 2, 0, 1, 2, 3};
  Convolution grouped{2, 9, 8, 6, 8, 3, 3};
  grouped.groups = 2;
  std::vector<ConvPool> list = {
      {{2, 28, 28, 1, 20, 3, 3}, 2, 2, false, kRelu},  // LeNet's first layer
      {{2, 28, 28, 1, 20, 3, 3}, 2, 2, false, kNone},
      {{2, 12, 12, 1, 6, 5, 5}, 2, 2, true, kTanh},
      {{2, 9, 8, 3, 5, 3, 3}, 2, 2, false, kRelu},   // a row is left out
      {{2, 10, 9, 3, 5, 3, 3}, 3, 2, true, kNone},   // rows and columns are left out
      {{1, 9, 10, 4, 3, 3, 3}, 3, 3, false, kTanh},  // two rows, two columns
      {{1, 6, 6, 2, 3, 3, 3}, 4, 4, true, kRelu},    // one window
      {{2, 6, 5, 3, 4, 1, 1}, 1, 2, false, kRelu},   // 1x1
      {{2, 8, 8, 3, 4, 3, 3}, 2, 3, false, RT_ACTIVATION_SIGMOID},
      {{2, 8, 8, 3, 4, 3, 3}, 2, 2, true, RT_ACTIVATION_GELU_TANH},
      {padded, 2, 2, false, kRelu},
      {padded, 2, 2, true, kRelu},
      {strided, 2, 2, false, kRelu},
      {strided, 3, 2, true, kTanh},
      {dilated, 2, 2, false, kNone},
      {grouped, 2, 2, false, kRelu},
      {grouped, 3, 3, true, kNone},
  };
  for (const int64_t n : {16, 17, 33}) {
    list.push_back({{n, 10, 9, 1, 20, 3, 3}, 2, 2, false, kRelu});
    list.push_back({{n, 9, 10, 2, 17, 3, 3}, 2, 2, true, kTanh});
  }
  return list;
}

// All of a sample of x is NaN, which reaches all of its results and of the gradient, but no other
// sample's result.
void add_special_samples(Cases& cases, rt_dtype dtype) {
  for (const int64_t function : {kNone, kRelu, kTanh}) {
    for (const bool average : {false, true}) {
      const ConvPool v{{3, 8, 7, 2, 6, 3, 3}, 2, 2, average, function};
      const Values x = with(kNaN, 3, 1, 8 * 7 * 2);
      Case forward = conv_pool_forward(dtype, v).rename("NaN");
      Case backward = conv_pool_backward_weights(dtype, v).rename("NaN");
      forward.inputs[0] = x;
      backward.inputs[0] = x;
      backward.forward = forward.operation;
      backward.forward_inputs = forward.inputs;
      cases.insert(cases.end(), {forward, backward});
    }
  }
}

}  // namespace

void add_conv_pool(Cases& cases, rt_dtype dtype) {
  if (is_sixteen_bit(dtype)) return;  // there is no such form
  for (const ConvPool& v : conv_pools()) {
    const Case forward = conv_pool_forward(dtype, v);
    cases.push_back(forward);
    cases.push_back(conv_pool_backward_weights(dtype, v).forward(forward));
  }
  const ConvPool empty{{0, 6, 6, 4, 8, 3, 3}, 2, 2, true, kRelu};
  const Case forward = conv_pool_forward(dtype, empty).rename("empty batch");
  cases.push_back(forward);
  add_special_samples(cases, dtype);
}

}  // namespace plugins::conformance
