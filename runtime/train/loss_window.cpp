#include "runtime/train/loss_window.h"

#include <cstring>
#include <exception>

namespace runtime::train {

LossWindow::LossWindow(std::shared_ptr<plugins::host::Device> device, rt_dtype dtype)
    : dtype_(dtype), memory_(device->allocate(kSize * 8, RT_MEMORY_PINNED_HOST)) {
  for (int64_t i = 0; i < kSize; ++i) events_.push_back(device->create_event());
}

LossWindow::~LossWindow() {
  for (plugins::host::Event& event : events_) {
    try {
      event.synchronize();
    } catch (const std::exception&) {
      // The device has failed, so that the copy has ended; who waits for the stream learns why.
    }
  }
}

void LossWindow::push(plugins::host::Stream& stream, const void* address, double weight) {
  stream.copy(slot(pushed_), address, dtype_ == RT_FLOAT64 ? 8 : 4);
  events_[pushed_ % kSize].record(stream);
  weights_[pushed_ % kSize] = weight;
  ++pushed_;
}

std::optional<WeighedLoss> LossWindow::pop(bool wait) {
  if (popped_ == pushed_) return std::nullopt;
  plugins::host::Event& event = events_[popped_ % kSize];
  if (wait) {
    event.synchronize();
  } else if (!event.query()) {
    return std::nullopt;
  }
  const double weight = weights_[popped_ % kSize];
  const std::byte* from = slot(popped_++);
  if (dtype_ == RT_FLOAT64) {
    double value;
    std::memcpy(&value, from, sizeof(value));
    return WeighedLoss{value, weight};
  }
  float value;
  std::memcpy(&value, from, sizeof(value));
  return WeighedLoss{value, weight};
}

}  // namespace runtime::train
