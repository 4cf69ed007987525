// How busy the device of a run is, for reporters.
#ifndef RUNTIME_TRAIN_DEVICE_METER_H_
#define RUNTIME_TRAIN_DEVICE_METER_H_

#include <chrono>
#include <memory>

#include "plugins/host/device.h"
#include "runtime/train/reporter.h"

namespace runtime::train {

// Asks the device at most once a second, because management libraries may take a millisecond.
class DeviceMeter {
 public:
  explicit DeviceMeter(std::shared_ptr<plugins::host::Device> device)
      : device_(std::move(device)) {}
  // The answer of the last time. On a device with host memory it is empty unless the plugin
  // measures something.
  const DeviceLoad& read();

 private:
  std::shared_ptr<plugins::host::Device> device_;
  std::chrono::steady_clock::time_point next_{};
  DeviceLoad load_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_DEVICE_METER_H_
