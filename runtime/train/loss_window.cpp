// Queues copies of losses with events behind them, and reports those that have arrived.
#include "runtime/train/loss_window.h"

#include <cstring>
#include <exception>

namespace runtime::train {

LossWindow::LossWindow(std::shared_ptr<plugins::host::Device> device, rt_dtype dtype)
    : dtype_(dtype), memory_(device->allocate(kSize * 16, RT_MEMORY_PINNED_HOST)) {
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

void LossWindow::push(plugins::host::Stream& stream, const void* loss, const void* scale,
                      double weight) {
  const uint64_t bytes = dtype_ == RT_FLOAT64 ? 8 : 4;
  const auto at = static_cast<size_t>(pushed_ % kSize);
  stream.copy(slot(pushed_), loss, bytes);
  scaled_[at] = scale != nullptr;
  if (scaled_[at]) stream.copy(slot(pushed_) + 8, scale, bytes);
  events_[at].record(stream);
  weights_[at] = weight;
  ++pushed_;
}

double LossWindow::number(const std::byte* from) const {
  if (dtype_ == RT_FLOAT64) {
    double value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  float value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

std::optional<WeighedLoss> LossWindow::pop(bool wait) {
  if (popped_ == pushed_) return std::nullopt;
  const auto at = static_cast<size_t>(popped_ % kSize);
  if (wait) {
    events_[at].synchronize();
  } else if (!events_[at].query()) {
    return std::nullopt;
  }
  const std::byte* const from = slot(popped_++);
  return WeighedLoss{number(from), weights_[at], scaled_[at] ? number(from + 8) : 1};
}

}  // namespace runtime::train
