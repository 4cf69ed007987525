// Stands in for the vendor's libraries in builds that have none.
#include "backends/gpu/vendor.h"

namespace backends::gpu {

std::span<const rt_option_spec* const> vendor_options() { return {}; }

std::unique_ptr<Vendor> open_vendor(const rt_device_options&, const Properties&, const rt_host*) {
  return nullptr;
}

}  // namespace backends::gpu
