// Losses that are being copied from the device while further steps are queued.
#ifndef RUNTIME_TRAIN_LOSS_WINDOW_H_
#define RUNTIME_TRAIN_LOSS_WINDOW_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plugins/host/device.h"

namespace runtime::train {

// The loss of a step and its weight in a mean, see loss_mean.h.
struct WeighedLoss {
  double loss = 0, weight = 0;
};

// A ring of scalars in pinned host memory, each with an event. One thread at a time.
class LossWindow {
 public:
  static constexpr int64_t kSize = 4;

  LossWindow(std::shared_ptr<plugins::host::Device> device, rt_dtype dtype);
  // Waits for the copies that still write the memory.
  ~LossWindow();
  LossWindow(const LossWindow&) = delete;
  LossWindow& operator=(const LossWindow&) = delete;

  bool full() const { return pushed_ - popped_ == kSize; }
  // Queues the copy of the scalar at `address` in device memory, which has this weight. Not while
  // full().
  void push(plugins::host::Stream& stream, const void* address, double weight);
  // The oldest scalar, once it has arrived; with `wait` blocks until then. nullopt if there is
  // none.
  std::optional<WeighedLoss> pop(bool wait);

 private:
  std::byte* slot(int64_t i) const {
    return static_cast<std::byte*>(memory_.data()) + i % kSize * 8;
  }

  rt_dtype dtype_;
  plugins::host::Memory memory_;
  std::vector<plugins::host::Event> events_;
  std::array<double, kSize> weights_ = {};
  int64_t pushed_ = 0, popped_ = 0;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_LOSS_WINDOW_H_
