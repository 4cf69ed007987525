// Matrix products, convolutions and poolings of any size, with their operands and attributes. Used
// by the conformance cases and by tests/differential.
#ifndef PLUGINS_CONFORMANCE_FORMS_H_
#define PLUGINS_CONFORMANCE_FORMS_H_

#include <string>
#include <vector>

#include "plugins/conformance/builder.h"

namespace plugins::conformance {

// A matrix product: leading dims, then m x k times k x n.
struct Product {
  Dims leading;
  int64_t m, n, k;
};

// a is [leading..., m, k]; b is [k, n], or [leading..., k, n] if `b_has_batch`. With `ta` or `tb`
// the last two dims of a or b are stored swapped.
Builder product(rt_dtype dtype, const Product& p, bool ta, bool tb, bool b_has_batch);
// The same of two matrices, the first one transposed, with its results in another type; with
// `with_sums` the sums over the rows of a as second output.
Builder weight_gradient(rt_dtype dtype, const Product& p, rt_dtype result, bool with_sums);

// A convolution, given by its sizes; the output height P and width Q follow from them.
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

Builder convolution_forward(rt_dtype dtype, const Convolution& v);
Builder convolution_backward_data(rt_dtype dtype, const Convolution& v);
Builder convolution_backward_weights(rt_dtype dtype, const Convolution& v, bool with_bias);

// A pooling, given by its sizes.
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

Builder pooling_forward(const char* operation, rt_dtype dtype, const Pooling& p, bool average);
Builder pooling_backward(const char* operation, rt_dtype dtype, const Pooling& p, bool average);

// A convolution with a bias, an activation (`function`, or 0) and a pooling without overlap behind
// it, which averages or takes the maximum.
struct ConvPool {
  Convolution convolution;
  int64_t kernel_h, kernel_w;
  bool average;
  int64_t function;

  Dims y() const {
    const Dims image = convolution.y();
    return {image[0], image[1] / kernel_h, image[2] / kernel_w, image[3]};
  }
  std::vector<host::Attribute> attributes() const {
    std::vector<host::Attribute> list = convolution.attributes();
    list.insert(list.end(), {{RT_ATTR_KERNEL_H, kernel_h},
                             {RT_ATTR_KERNEL_W, kernel_w},
                             {RT_ATTR_AVERAGE, int64_t{average}},
                             {RT_ATTR_FUNCTION, function}});
    return list;
  }
  std::string name() const {
    return convolution.name() + (average ? " mean " : " max ") + label({kernel_h, kernel_w}) +
           " function " + std::to_string(function);
  }
};

Builder conv_pool_forward(rt_dtype dtype, const ConvPool& v);
// Without its forward operation, whose saved data it reads.
Builder conv_pool_backward_weights(rt_dtype dtype, const ConvPool& v);

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_FORMS_H_
