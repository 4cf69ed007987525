// Stands in for the vendor's libraries in builds that have none.
#include "backends/gpu/vendor.h"
#include "rt/sdk/plugin.h"

namespace backends::gpu {

const rt_option_spec* const* vendor_options(void* self, uint32_t* count) {
  return rt::sdk::no_options(self, count);
}

std::unique_ptr<Vendor> open_vendor(const rt_device_options&, const Properties&, const rt_host*) {
  return nullptr;
}

}  // namespace backends::gpu
