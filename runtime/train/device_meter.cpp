// Reads load and power at most once a second, and sums the energy.
#include "runtime/train/device_meter.h"

namespace runtime::train {

const DeviceLoad& DeviceMeter::read() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return load_;
  next_ = now + std::chrono::seconds(1);
  load_ = {};
  const rt_utilisation u = device_->utilisation();
  if (u.compute_percent >= 0) load_.utilisation = u.compute_percent;
  if (u.power_milliwatts >= 0) {
    load_.power_watts = static_cast<double>(u.power_milliwatts) / 1e3;
    add_energy(*load_.power_watts, now);
  }
  const rt_memory_info memory = device_->memory_info();
  load_.allocated_bytes = memory.allocated_bytes;
  if (!device_->host_memory()) load_.memory_bytes = memory.total_bytes - memory.free_bytes;
  return load_;
}

void DeviceMeter::add_energy(double watts, std::chrono::steady_clock::time_point now) {
  if (joules_) *joules_ += watts_ * std::chrono::duration<double>(now - measured_).count();
  if (!joules_) joules_ = 0;
  watts_ = watts;
  measured_ = now;
}

}  // namespace runtime::train
