// The options of the plugin `cuda` and the libraries that it opens.
#include "backends/gpu/vendor.h"

#include "backends/cuda/provider.h"
#include "backends/gpu/libraries.h"

namespace backends::gpu {
namespace {

constexpr char kTf32[] = "tf32";

}  // namespace

std::span<const rt_option_spec* const> vendor_options() {
  static const rt_option_spec libraries = {
      sizeof(rt_option_spec), RT_OPTION_BOOLEAN, kLibrariesKey, "true",
      "cuBLASLt multiplies matrices and cuDNN convolves; false: own kernels, slower"};
  static const rt_option_spec tf32 = {
      sizeof(rt_option_spec), RT_OPTION_BOOLEAN, kTf32, "false",
      "float32 products on tensor cores: much faster, with 3 digits instead of 7"};
  static const rt_option_spec* const specs[] = {&libraries, &tf32};
  return specs;
}

std::unique_ptr<Vendor> open_vendor(const rt_device_options& options, const Properties&,
                                    const rt_host* host) {
  const bool tf32 = boolean_option(options, kTf32, false);
  if (!boolean_option(options, kLibrariesKey, true)) {
    if (!tf32) return nullptr;
    throw rt::sdk::Error(RT_ERROR_INVALID_ARGUMENT,
                         "option 'tf32' of cuda needs vendor_libraries = true: own kernels "
                         "multiply float32 exactly",
                         RT_SCOPE_DEVICE);
  }
  auto made = std::make_unique<Libraries>();
#if defined(BACKENDS_GPU_BLAS_LT)
  made->add([&] { return open_blas_lt(tf32); }, "matmul is without cuBLASLt", host);
#endif
#if defined(BACKENDS_CUDA_CUDNN)
  made->add([&] { return cuda::open_cudnn(tf32); }, "convolutions are without cuDNN", host);
#endif
  return made;
}

}  // namespace backends::gpu
