// Utilisation, temperature and power of a device, as the vendor's management library reports them.
// The library is loaded when it is first asked; neither it nor its header has to be installed.
#ifndef BACKENDS_GPU_TELEMETRY_H_
#define BACKENDS_GPU_TELEMETRY_H_

#include <memory>
#include <string>

#include "rt/device.h"

namespace backends::gpu {

// Only one thread may call at a time.
class Telemetry {
 public:
  virtual ~Telemetry() = default;
  // Sets the fields of `utilisation` that the library knows, and the others to -1.
  virtual void read(rt_utilisation& utilisation) = 0;
};

// The address of a device on the PCI bus.
struct PciAddress {
  unsigned domain = 0, bus = 0, device = 0;
};

// Opens NVIDIA's library NVML. Returns nullptr if the library is missing or does not know the
// device.
std::unique_ptr<Telemetry> open_nvml(const PciAddress& address,
                                     const char* library = "libnvidia-ml.so.1");
// Opens AMD's library ROCm SMI, in the same way.
std::unique_ptr<Telemetry> open_rocm_smi(const PciAddress& address,
                                         const char* library = "librocm_smi64.so");

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_TELEMETRY_H_
