// The options of the plugin `rocm` and the libraries that it opens.
#include "backends/gpu/vendor.h"

#include "backends/gpu/blas_lt.h"
#include "backends/gpu/libraries.h"
#include "backends/rocm/miopen.h"

namespace backends::gpu {

#if defined(BACKENDS_ROCM_MIOPEN)
namespace {
constexpr char kSearch[] = "miopen_find";
}  // namespace
#endif

std::span<const rt_option_spec* const> vendor_options() {
  static const rt_option_spec libraries = {
      sizeof(rt_option_spec), RT_OPTION_BOOLEAN, kLibrariesKey, "true",
      "hipBLASLt multiplies matrices and MIOpen convolves; false: own kernels, slower"};
#if defined(BACKENDS_ROCM_MIOPEN)
  static const rt_option_spec search = {
      sizeof(rt_option_spec), RT_OPTION_BOOLEAN, kSearch, "true",
      "MIOpen measures the kernels of each convolution once; false: it estimates"};
  static const rt_option_spec* const specs[] = {&libraries, &search};
#else
  static const rt_option_spec* const specs[] = {&libraries};
#endif
  return specs;
}

std::unique_ptr<Vendor> open_vendor(const rt_device_options& options, const Properties&,
                                    const rt_host* host) {
  if (!boolean_option(options, kLibrariesKey, true)) return nullptr;
  auto libraries = std::make_unique<Libraries>();
#if defined(BACKENDS_GPU_BLAS_LT)
  libraries->add([] { return open_blas_lt(false); }, "matmul is without hipBLASLt", host);
#endif
#if defined(BACKENDS_ROCM_MIOPEN)
  const bool search = boolean_option(options, kSearch, true);
  libraries->add([=] { return rocm::open_miopen(search); }, "convolutions are without MIOpen",
                 host);
#endif
  return libraries;
}

}  // namespace backends::gpu
