// Which of oneDNN's fusions and algorithms were found right. What stands in no list is done in
// another way: a residual add by PostChain, a convolution by the direct algorithm.
#ifndef BACKENDS_CPU_VERIFIED_H_
#define BACKENDS_CPU_VERIFIED_H_

#include <string_view>

#include "backends/cpu/onednn_provider.h"
#include "backends/cpu/window.h"

namespace backends::cpu {

// One axis of a convolution.
struct Axis {
  int64_t input, output, kernel, stride, dilation, pad_begin;
};

// Does every output position see at least one input position, so that its sum is not over padding
// alone?
bool every_output_sees_input(const Axis& axis);

// May this implementation of a convolution (oneDNN's name for it) add a residual in this way?
// `rows`: the axis of the height.
bool adds_residual_rightly(std::string_view implementation, Residual residual, const Axis& rows);

// May this implementation (oneDNN's name for it) make the weight gradient of a convolution with
// these strides, whose source has `input_channels` channels, in NHWC or in blocks of channels?
bool weight_gradient_stays_inside(std::string_view implementation, const Window& window,
                                  int64_t input_channels, bool source_is_nhwc);

// Is oneDNN's Winograd data gradient right with this padding? Forward and weight gradient are.
bool winograd_data_gradient_is_right(const Window& window);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_VERIFIED_H_
