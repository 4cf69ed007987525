// How busy the device of a run is, for reporters.
#ifndef RUNTIME_TRAIN_DEVICE_METER_H_
#define RUNTIME_TRAIN_DEVICE_METER_H_

#include <chrono>
#include <memory>

#include "plugins/host/device.h"

namespace runtime::train {

// The load of the whole device, by all its users, and what this rank has of its memory. What the
// device does not measure is empty.
struct DeviceLoad {
  std::optional<int> utilisation;  // percent of the time
  std::optional<double> power_watts;
  std::optional<uint64_t> memory_bytes;  // in use
  uint64_t allocated_bytes = 0;          // by this rank, for any use
};

// Asks the device at most once a second, because management libraries may take a millisecond.
class DeviceMeter {
 public:
  explicit DeviceMeter(std::shared_ptr<plugins::host::Device> device)
      : device_(std::move(device)) {}
  // The answer of the last time. On a device with host memory the load is empty unless the plugin
  // measures something.
  const DeviceLoad& read();
  // The energy in joules that the device has drawn since the first answer with a power, as the sum
  // of the powers that were read, each for the time until the next reading. Empty where the device
  // does not tell its power.
  const std::optional<double>& joules() const { return joules_; }

 private:
  void add_energy(double watts, std::chrono::steady_clock::time_point now);

  std::shared_ptr<plugins::host::Device> device_;
  std::chrono::steady_clock::time_point next_{};
  DeviceLoad load_;
  std::chrono::steady_clock::time_point measured_{};
  double watts_ = 0;
  std::optional<double> joules_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_DEVICE_METER_H_
