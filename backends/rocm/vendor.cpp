// The options of the plugin `rocm`, and its library.
#include "backends/gpu/vendor.h"

#include "backends/gpu/blas_lt.h"
#include "backends/gpu/libraries.h"

namespace backends::gpu {

const rt_option_spec* const* vendor_options(void*, uint32_t* count) {
  static const rt_option_spec libraries = {
      sizeof(rt_option_spec), RT_OPTION_BOOLEAN, kLibrariesKey, "true",
      "hipBLASLt multiplies matrices; false: own kernels, slower"};
  static const rt_option_spec* const specs[] = {&libraries};
  *count = std::size(specs);
  return specs;
}

std::unique_ptr<Vendor> open_vendor(const rt_device_options& options, const Properties&,
                                    const rt_host* host) {
  if (!boolean_option(options, kLibrariesKey, true)) return nullptr;
  auto libraries = std::make_unique<Libraries>();
  libraries->add([] { return open_blas_lt(false); }, "matmul is without hipBLASLt", host);
  return libraries;
}

}  // namespace backends::gpu
