// How busy, warm and hungry a device is, by the management library of its vendor, which is loaded
// when it is first asked: neither its header nor the library need to be there.
#ifndef BACKENDS_GPU_TELEMETRY_H_
#define BACKENDS_GPU_TELEMETRY_H_

#include <memory>
#include <string>

#include "rt/device.h"

namespace backends::gpu {

// One thread at a time.
class Telemetry {
 public:
  virtual ~Telemetry() = default;
  // Sets what the library knows, -1 where it does not.
  virtual void read(rt_utilisation& utilisation) = 0;
};

// Where a device is on the PCI bus.
struct PciAddress {
  unsigned domain = 0, bus = 0, device = 0;
};

// NVML, NVIDIA's. nullptr: the library is not there, or does not know the device.
std::unique_ptr<Telemetry> open_nvml(const PciAddress& address,
                                     const char* library = "libnvidia-ml.so.1");
// ROCm SMI, AMD's.
std::unique_ptr<Telemetry> open_rocm_smi(const PciAddress& address,
                                         const char* library = "librocm_smi64.so");

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_TELEMETRY_H_
