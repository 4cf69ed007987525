// Losses on their way from the device: steps go on while they travel.
#ifndef RUNTIME_TRAIN_LOSS_WINDOW_H_
#define RUNTIME_TRAIN_LOSS_WINDOW_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plugins/host/device.h"

namespace runtime::train {

// A ring of scalars in pinned host memory, each with an event. One thread.
class LossWindow {
 public:
  static constexpr int64_t kSize = 4;

  LossWindow(std::shared_ptr<plugins::host::Device> device, rt_dtype dtype);

  bool full() const { return pushed_ - popped_ == kSize; }
  // Queues the copy of the scalar at `address`. Not while full.
  void push(plugins::host::Stream& stream, const void* address);
  // The oldest scalar, if it has arrived (or `wait`); nullopt if there is none.
  std::optional<double> pop(bool wait);

 private:
  std::byte* slot(int64_t i) const {
    return static_cast<std::byte*>(memory_.data()) + i % kSize * 8;
  }

  rt_dtype dtype_;
  plugins::host::Memory memory_;
  std::vector<plugins::host::Event> events_;
  int64_t pushed_ = 0, popped_ = 0;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_LOSS_WINDOW_H_
