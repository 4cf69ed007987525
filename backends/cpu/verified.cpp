// The tables of oneDNN implementations that a search with random shapes has found to be right.
#include "backends/cpu/verified.h"

#include <algorithm>
#include <iterator>

#include "rt/operations.h"

namespace backends::cpu {
namespace {

struct VerifiedResidual {
  std::string_view implementation;
  Residual residual;
  // The implementation is right only if no output row or column is computed from padding alone.
  bool outputs_see_input;
};

// The implementations of oneDNN that added residuals rightly in the tests with random shapes that
// README.md describes. gemm, ref, Winograd and all kernels for instruction sets older than AVX2 are
// left out on purpose; PostChain adds the residual after them.
constexpr VerifiedResidual kVerified[] = {
    {"jit:avx512_core", Residual::kBinary, false},
    {"jit:avx2", Residual::kBinary, false},
    {"jit_1x1:avx512_core", Residual::kBinary, false},
    {"jit_1x1:avx2", Residual::kBinary, false},
    {"jit_dw:avx512_core", Residual::kBinary, false},
    {"jit_dw:avx2", Residual::kBinary, false},
    {"brgconv:avx512_core", Residual::kSum, true},
    {"brgconv_1x1:avx512_core", Residual::kSum, true},
};

// True for the version of oneDNN that was searched; nothing is known about the others.
bool is_verified_version() {
  const dnnl_version_t* version = dnnl_version();
  return version->major == 2 && version->minor == 6;
}

}  // namespace

bool every_output_sees_input(const Axis& axis) {
  for (int64_t o = 0; o < axis.output; ++o) {
    const int64_t first = o * axis.stride - axis.pad_begin;
    bool sees = false;
    for (int64_t k = 0; k < axis.kernel && !sees; ++k) {
      const int64_t at = first + k * axis.dilation;
      sees = at >= 0 && at < axis.input;
    }
    if (!sees) return false;
  }
  return true;
}

bool adds_residual_rightly(std::string_view implementation, Residual residual, const Axis& rows,
                           const Axis& columns) {
  if (residual == Residual::kNone) return true;
  if (!is_verified_version()) return false;
  return std::any_of(std::begin(kVerified), std::end(kVerified), [&](const VerifiedResidual& v) {
    return v.implementation == implementation && v.residual == residual &&
           (!v.outputs_see_input ||
            (every_output_sees_input(rows) && every_output_sees_input(columns)));
  });
}

// A fault of oneDNN: with strides, its 1x1 kernels first copy the selected pixels into a buffer of
// positions x channels, but write it as if the channels filled whole blocks, so that they write
// past its end if a pixel has fewer channels than a block. The kernel for AVX2 addresses it as if
// the blocks of channels lay one after another, and also writes past the end if there are several.
bool weight_gradient_stays_inside(std::string_view implementation, const Window& window,
                                  int64_t input_channels, bool source_is_nhwc) {
  constexpr int64_t kLargestBlock = 16;
  const size_t found = implementation.find("jit_1x1");
  if (found == std::string_view::npos) return true;
  if (window.stride_h == 1 && window.stride_w == 1) return true;
  // In oneDNN 3, another implementation may wrap the 1x1 kernel. Its name then begins differently,
  // and the source that it gives to the kernel may be in NHWC, whatever the layout of its own is.
  const bool own_layout = found == 0;
  if (own_layout && !source_is_nhwc) return true;
  const bool avx2 = implementation.find("avx2") != std::string_view::npos;
  return !avx2 && input_channels >= kLargestBlock;
}

bool winograd_data_gradient_is_right(const Window& window) {
  return window.pad_top == window.pad_bottom;
}

// Does every tap of the filter see an input position from some output position?
bool every_tap_sees_input(const Axis& axis) {
  for (int64_t k = 0; k < axis.kernel; ++k) {
    bool sees = false;
    for (int64_t o = 0; o < axis.output && !sees; ++o) {
      const int64_t at = o * axis.stride - axis.pad_begin + k * axis.dilation;
      sees = at >= 0 && at < axis.input;
    }
    if (!sees) return false;
  }
  return true;
}

// Faults of oneDNN, found by random convolutions: 2.6 ends the process where an output position is
// computed from padding alone, and its gradients of weights are wrong with dilation; the gradient
// of a tap that sees padding only is left as it was in memory, also by 3.2.
bool bfloat16_convolution_is_right(const Operation& op) {
  const bool forward = op.is(RT_OP_CONV2D), weights = op.is(RT_OP_CONV2D_BACKWARD_WEIGHTS);
  const rt_tensor_desc& x = op.is(RT_OP_CONV2D_BACKWARD_DATA) ? op.output(0) : op.input(0);
  const rt_tensor_desc& w = weights ? op.output(0) : op.input(1);
  const rt_tensor_desc& y = forward ? op.output(0) : weights ? op.input(1) : op.input(0);
  const Window window = convolution_window(op, x, w, y);
  const Axis axes[] = {
      {x.dims[1], y.dims[1], w.dims[1], window.stride_h, window.dilation_h, window.pad_top},
      {x.dims[2], y.dims[2], w.dims[2], window.stride_w, window.dilation_w, window.pad_left}};
  return std::all_of(std::begin(axes), std::end(axes), [&](const Axis& axis) {
    return every_output_sees_input(axis) &&
           (!weights || (axis.dilation == 1 && every_tap_sees_input(axis)));
  });
}

}  // namespace backends::cpu
