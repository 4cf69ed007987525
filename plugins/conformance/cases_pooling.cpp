// Poolings and their gradients.
#include "plugins/conformance/forms.h"

namespace plugins::conformance {
namespace {

std::vector<Pooling> poolings() {
  return {
      {2, 8, 8, 20, 2, 2, 2, 2},                // LeNet
      {1, 9, 7, 50, 2, 2, 2, 2},                // the last row and column are not covered
      {2, 9, 9, 64, 3, 3, 2, 2, 1, 1, 1, 1},    // ResNet's stem: overlapping windows
      {2, 9, 9, 3, 3, 3, 2, 2, 1, 1, 1, 1, 0},  // padding not counted
      {3, 5, 8, 1, 3, 2, 1, 3, 2, 0, 0, 1},     // all sizes differ
      {1, 4, 4, 16, 4, 4, 4, 4},                // one window
      {2, 6, 6, 5, 1, 1, 2, 2},                 // a stride larger than the window
  };
}

}  // namespace

void add_pooling(Cases& cases, rt_dtype dtype) {
  for (const Pooling& p : poolings()) {
    const Builder max = pooling_forward(RT_OP_MAX_POOL2D, dtype, p, false);
    const Builder max_backward =
        pooling_backward(RT_OP_MAX_POOL2D_BACKWARD, dtype, p, false).forward(max);
    const Builder average = pooling_forward(RT_OP_AVG_POOL2D, dtype, p, true);
    const Builder average_backward = pooling_backward(RT_OP_AVG_POOL2D_BACKWARD, dtype, p, true);
    if (p.count_include_pad) cases.insert(cases.end(), {max.get(), max_backward.get()});
    cases.insert(cases.end(), {average.get(), average_backward.get()});
  }
  for (const Pooling& p : {poolings()[0], poolings()[2]}) {
    const Builder max = pooling_forward(RT_OP_MAX_POOL2D, dtype, p, false);
    cases.push_back(Builder(max).rename("relu").activation(RT_ACTIVATION_RELU));
    cases.push_back(pooling_forward(RT_OP_AVG_POOL2D, dtype, p, true)
                        .rename("relu")
                        .activation(RT_ACTIVATION_RELU));
    cases.push_back(pooling_forward(RT_OP_AVG_POOL2D, dtype, p, true)
                        .rename("bias tanh")
                        .bias()
                        .activation(RT_ACTIVATION_TANH));
    cases.push_back(pooling_backward(RT_OP_MAX_POOL2D_BACKWARD, dtype, p, false)
                        .forward(max)
                        .rename("relu backward")
                        .activation_backward(RT_ACTIVATION_RELU));
    cases.push_back(pooling_backward(RT_OP_AVG_POOL2D_BACKWARD, dtype, p, true)
                        .rename("relu backward")
                        .activation_backward(RT_ACTIVATION_RELU));
  }
  for (const Dims& x : {Dims{2, 7, 5, 20}, Dims{1, 1, 1, 3}, Dims{3, 4, 4, 64}}) {
    const Dims y = {x[0], x[3]};
    cases.push_back(Builder(RT_OP_GLOBAL_AVG_POOL, dtype, label(x)).in(x).out(y));
    cases.push_back(Builder(RT_OP_GLOBAL_AVG_POOL, dtype, label(x) + " relu")
                        .in(x)
                        .out(y)
                        .activation(RT_ACTIVATION_RELU));
    cases.push_back(Builder(RT_OP_GLOBAL_AVG_POOL_BACKWARD, dtype, label(x)).in(y).out(x));
  }
}

}  // namespace plugins::conformance
