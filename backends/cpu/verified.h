// The fusions and algorithms of oneDNN that a search has found to be right; README.md describes the
// search. Everything else is done in another way: a residual add by PostChain, a convolution by the
// direct algorithm.
#ifndef BACKENDS_CPU_VERIFIED_H_
#define BACKENDS_CPU_VERIFIED_H_

#include <string_view>

#include "backends/cpu/onednn_provider.h"
#include "backends/cpu/window.h"

namespace backends::cpu {

// The sizes of one axis of a convolution, in elements.
struct Axis {
  int64_t input, output, kernel, stride, dilation, pad_begin;
};

// Does every output position see at least one input position? If not, the sum of that position is
// over padding alone.
bool every_output_sees_input(const Axis& axis);

// May a convolution by this implementation (oneDNN's name for it) add a residual in this way?
bool adds_residual_rightly(std::string_view implementation, Residual residual, const Axis& rows,
                           const Axis& columns);

// May this implementation (oneDNN's name for it) compute the weight gradient of a convolution with
// these strides? The source has `input_channels` channels and is in NHWC or in blocks of channels.
bool weight_gradient_stays_inside(std::string_view implementation, const Window& window,
                                  int64_t input_channels, bool source_is_nhwc);

// Is the data gradient of oneDNN's Winograd algorithm right with this padding? Its forward and
// weight gradient are right with any padding.
bool winograd_data_gradient_is_right(const Window& window);

// May oneDNN do this convolution, or this gradient of one, in bfloat16?
bool bfloat16_convolution_is_right(const Operation& op);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_VERIFIED_H_
