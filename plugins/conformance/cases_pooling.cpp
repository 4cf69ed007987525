// The poolings and their gradients
#include "plugins/conformance/builder.h"

namespace plugins::conformance {
namespace {

struct Pooling {
  int64_t n, h, w, c, kernel_h, kernel_w, stride_h, stride_w;
  int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  int64_t count_include_pad = 1;

  Dims x() const { return {n, h, w, c}; }
  Dims y() const {
    return {n, (h + pad_top + pad_bottom - kernel_h) / stride_h + 1,
            (w + pad_left + pad_right - kernel_w) / stride_w + 1, c};
  }
  std::vector<host::Attribute> attributes(bool average) const {
    std::vector<host::Attribute> list = {
        {RT_ATTR_KERNEL_H, kernel_h},   {RT_ATTR_KERNEL_W, kernel_w},
        {RT_ATTR_STRIDE_H, stride_h},   {RT_ATTR_STRIDE_W, stride_w},
        {RT_ATTR_PAD_TOP, pad_top},     {RT_ATTR_PAD_LEFT, pad_left},
        {RT_ATTR_PAD_RIGHT, pad_right}, {RT_ATTR_PAD_BOTTOM, pad_bottom}};
    if (average) list.push_back({RT_ATTR_COUNT_INCLUDE_PAD, count_include_pad});
    return list;
  }
  std::string name() const {
    return label(x()) + " k" + label({kernel_h, kernel_w}) + " s" + label({stride_h, stride_w}) +
           " p" + label({pad_top, pad_bottom, pad_left, pad_right}) +
           (count_include_pad ? "" : " without padding");
  }
};

std::vector<Pooling> poolings() {
  return {
      {2, 8, 8, 20, 2, 2, 2, 2},                // LeNet
      {1, 9, 7, 50, 2, 2, 2, 2},                // rows and columns left over
      {2, 9, 9, 64, 3, 3, 2, 2, 1, 1, 1, 1},    // ResNet's stem: windows overlap
      {2, 9, 9, 3, 3, 3, 2, 2, 1, 1, 1, 1, 0},  // padding not counted
      {3, 5, 8, 1, 3, 2, 1, 3, 2, 0, 0, 1},     // unequal in every direction
      {1, 4, 4, 16, 4, 4, 4, 4},                // one window
      {2, 6, 6, 5, 1, 1, 2, 2},                 // a stride larger than the window
  };
}

Builder forward(const char* operation, rt_dtype dtype, const Pooling& p, bool average) {
  Builder b(operation, dtype, p.name());
  b.in(p.x()).out(p.y()).attributes(p.attributes(average));
  return b;
}

Builder backward(const char* operation, rt_dtype dtype, const Pooling& p, bool average) {
  Builder b(operation, dtype, p.name());
  Values dy;
  dy.seed = 7;
  b.in(p.y(), dy).out(p.x()).attributes(p.attributes(average));
  return b;
}

}  // namespace

void add_pooling(Cases& cases, rt_dtype dtype) {
  for (const Pooling& p : poolings()) {
    const Builder max = forward(RT_OP_MAX_POOL2D, dtype, p, false);
    const Builder max_backward = backward(RT_OP_MAX_POOL2D_BACKWARD, dtype, p, false).forward(max);
    const Builder average = forward(RT_OP_AVG_POOL2D, dtype, p, true);
    const Builder average_backward = backward(RT_OP_AVG_POOL2D_BACKWARD, dtype, p, true);
    if (p.count_include_pad) cases.insert(cases.end(), {max.get(), max_backward.get()});
    cases.insert(cases.end(), {average.get(), average_backward.get()});
  }
  const Pooling p = poolings().front();
  cases.push_back(
      forward(RT_OP_MAX_POOL2D, dtype, p, false).rename("relu").activation(RT_ACTIVATION_RELU));
  cases.push_back(
      forward(RT_OP_AVG_POOL2D, dtype, p, true).rename("relu").activation(RT_ACTIVATION_RELU));
  cases.push_back(backward(RT_OP_AVG_POOL2D_BACKWARD, dtype, p, true)
                      .rename("relu backward")
                      .activation_backward(RT_ACTIVATION_RELU));
  for (const Dims& x : {Dims{2, 7, 5, 20}, Dims{1, 1, 1, 3}, Dims{3, 4, 4, 64}}) {
    const Dims y = {x[0], x[3]};
    cases.push_back(Builder(RT_OP_GLOBAL_AVG_POOL, dtype, label(x)).in(x).out(y));
    cases.push_back(Builder(RT_OP_GLOBAL_AVG_POOL_BACKWARD, dtype, label(x)).in(y).out(x));
  }
}

}  // namespace plugins::conformance
