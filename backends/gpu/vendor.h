// What a plugin's build has beside the own kernels: libraries of the vendor, asked before them.
// backends/cuda has some; no_vendor.cpp stands for a build without any.
#ifndef BACKENDS_GPU_VENDOR_H_
#define BACKENDS_GPU_VENDOR_H_

#include <memory>
#include <string>
#include <vector>

#include "backends/gpu/plan.h"
#include "rt/plugin.h"

namespace backends::gpu {

// The libraries of one opened device, with their handles. Any thread may call.
class Vendor {
 public:
  virtual ~Vendor() = default;

  // At most `most` ways of doing the operation with all its post-operations, the library's
  // favourite first, each the same bits every time; none where no library does it, and if it is a
  // library's business, `without` says why not. The order is the same in every process with the
  // same versions of the libraries.
  virtual std::vector<Kernel> kernels(const Operation& op, size_t most, std::string* without) = 0;
};

// The keys of [device.<plugin>].
const rt_option_spec* const* vendor_options(void*, uint32_t* count);

// Reads those keys and opens the libraries for the calling thread's device; null: the own kernels
// serve alone. A library that is not there is said to `host` (may be null) and done without.
std::unique_ptr<Vendor> open_vendor(const rt_device_options& options, const Properties& properties,
                                    const rt_host* host);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_VENDOR_H_
