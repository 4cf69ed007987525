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
  double scale = 1;  // by which the step has clipped its gradient; 1 if it does not
};

// A ring of results in pinned host memory, each with an event. One thread at a time.
class LossWindow {
 public:
  static constexpr int64_t kSize = 4;

  LossWindow(std::shared_ptr<plugins::host::Device> device, rt_dtype dtype);
  // Waits for the copies that still write the memory.
  ~LossWindow();
  LossWindow(const LossWindow&) = delete;
  LossWindow& operator=(const LossWindow&) = delete;

  bool full() const { return pushed_ - popped_ == kSize; }
  // Queues the copies of the loss, which has this weight, and of the scale (null: none) from device
  // memory. Not while full().
  void push(plugins::host::Stream& stream, const void* loss, const void* scale, double weight);
  // The oldest result, once it has arrived; with `wait` blocks until then. nullopt if there is
  // none.
  std::optional<WeighedLoss> pop(bool wait);

 private:
  // The loss of a step, and 8 bytes behind it the scale.
  std::byte* slot(int64_t i) const {
    return static_cast<std::byte*>(memory_.data()) + i % kSize * 16;
  }
  double number(const std::byte* from) const;

  rt_dtype dtype_;
  plugins::host::Memory memory_;
  std::vector<plugins::host::Event> events_;
  std::array<double, kSize> weights_ = {};
  std::array<bool, kSize> scaled_ = {};
  int64_t pushed_ = 0, popped_ = 0;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_LOSS_WINDOW_H_
