// The GPU vendor's libraries (cuBLASLt, cuDNN; hipBLASLt, MIOpen), which a plugin may be built
// with. Their kernels are preferred to our own. backends/cuda and backends/rocm implement this;
// no_vendor.cpp stands for a build without libraries.
#ifndef BACKENDS_GPU_VENDOR_H_
#define BACKENDS_GPU_VENDOR_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/gpu/plan.h"
#include "rt/plugin.h"

namespace backends::gpu {

// The libraries of one opened device, with their handles. Any thread may call.
class Vendor {
 public:
  virtual ~Vendor() = default;

  // At most `most` candidates for the operation with all its post-operations, the library's
  // preferred one first. Each gives the same bits every time. Empty if no library does the
  // operation; if a library serves operations of this kind but not this one, `without` receives the
  // reason. The order is the same in every process with the same versions of the libraries.
  virtual std::vector<Kernel> kernels(const Operation& op, size_t most, std::string* without) = 0;

  // The stream is about to be destroyed. A library whose handle keeps the stream of the latest
  // launch must not keep this one.
  virtual void forget(GPU(Stream_t) stream) { static_cast<void>(stream); }
};

// The keys of [device.<plugin>].
std::span<const rt_option_spec* const> vendor_options();

// Reads these keys and opens the libraries for the calling thread's device. Returns null if our own
// kernels are to serve alone. A library that is missing is reported to `host` (may be null) as a
// warning and not used.
std::unique_ptr<Vendor> open_vendor(const rt_device_options& options, const Properties& properties,
                                    const rt_host* host);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_VENDOR_H_
