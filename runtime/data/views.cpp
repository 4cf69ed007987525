#include "runtime/data/views.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "runtime/data/array.h"
#include "runtime/error.h"

namespace runtime::data {
namespace {

class RangeView final : public Dataset {
 public:
  RangeView(std::shared_ptr<const Dataset> base, int64_t begin, int64_t end)
      : base_(std::move(base)), begin_(begin), size_(end - begin) {}
  const SampleSpec& spec() const override { return base_->spec(); }
  int64_t size() const override { return size_; }
  void read_features(int64_t index, float* out) const override {
    base_->read_features(begin_ + index, out);
  }
  int32_t label(int64_t index) const override { return base_->label(begin_ + index); }
  void read_labels(int64_t index, int32_t* out) const override {
    base_->read_labels(begin_ + index, out);
  }
  void read_targets(int64_t index, float* out) const override {
    base_->read_targets(begin_ + index, out);
  }
  std::string description() const override {
    return base_->description() + " (" + std::to_string(size_) + " of them, from " +
           std::to_string(begin_) + ")";
  }

 private:
  std::shared_ptr<const Dataset> base_;
  int64_t begin_, size_;
};

// An output position is between the input positions `low` and `high`: (1 - weight) * x[low] +
// weight * x[high].
struct Tap {
  int64_t low = 0, high = 0;
  float weight = 0;
};

std::vector<Tap> make_taps(int64_t from, int64_t to) {
  std::vector<Tap> taps(static_cast<std::size_t>(to));
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (std::size_t i = 0; i < taps.size(); ++i) {
    const double position = std::max(0.0, (static_cast<double>(i) + 0.5) * scale - 0.5);
    Tap& tap = taps[i];
    tap.low = std::min(static_cast<int64_t>(position), from - 1);
    tap.high = std::min(tap.low + 1, from - 1);
    tap.weight = static_cast<float>(position - static_cast<double>(tap.low));
  }
  return taps;
}

// Buffers for one sample of the base; every reading thread takes one and puts it back, so that
// after the first reads nothing is allocated.
class BufferPool {
 public:
  using Buffer = std::unique_ptr<float[]>;
  explicit BufferPool(std::size_t size) : size_(size) {}
  Buffer take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        Buffer buffer = std::move(free_.back());
        free_.pop_back();
        return buffer;
      }
    }
    return std::make_unique_for_overwrite<float[]>(size_);
  }
  void put(Buffer buffer) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(buffer));
  }

 private:
  std::size_t size_;
  std::mutex mutex_;
  std::vector<Buffer> free_;
};

class ResizeView final : public Dataset {
 public:
  ResizeView(std::shared_ptr<const Dataset> base, int64_t height, int64_t width)
      : base_(std::move(base)),
        spec_(base_->spec()),
        width_in_(spec_.shape[1]),
        channels_(spec_.shape[2]),
        rows_(make_taps(spec_.shape[0], height)),
        columns_(make_taps(spec_.shape[1], width)),
        pool_(static_cast<std::size_t>(spec_.shape[0] * spec_.shape[1] * spec_.shape[2])) {
    spec_.shape = {height, width, channels_};
  }
  const SampleSpec& spec() const override { return spec_; }
  int64_t size() const override { return base_->size(); }
  void read_features(int64_t index, float* out) const override {
    BufferPool::Buffer image = pool_.take();
    base_->read_features(index, image.get());
    for (const Tap& row : rows_) out = resize_row(image.get(), row, out);
    pool_.put(std::move(image));
  }
  int32_t label(int64_t index) const override { return base_->label(index); }
  void read_targets(int64_t index, float* out) const override { base_->read_targets(index, out); }
  std::string description() const override {
    return base_->description() + ", resized to " + shape_text(spec_.shape);
  }

 private:
  float* resize_row(const float* image, const Tap& row, float* out) const {
    const float* low = image + row.low * width_in_ * channels_;
    const float* high = image + row.high * width_in_ * channels_;
    for (const Tap& column : columns_) {
      const int64_t left = column.low * channels_, right = column.high * channels_;
      for (int64_t c = 0; c < channels_; ++c) {
        const float upper = low[left + c] + column.weight * (low[right + c] - low[left + c]);
        const float lower = high[left + c] + column.weight * (high[right + c] - high[left + c]);
        *out++ = upper + row.weight * (lower - upper);
      }
    }
    return out;
  }

  std::shared_ptr<const Dataset> base_;
  SampleSpec spec_;
  int64_t width_in_, channels_;
  std::vector<Tap> rows_, columns_;
  mutable BufferPool pool_;
};

}  // namespace

std::shared_ptr<const Dataset> range_of(std::shared_ptr<const Dataset> base, int64_t begin,
                                        int64_t end) {
  if (begin < 0 || begin >= end || end > base->size()) {
    throw DataError("cannot take samples " + std::to_string(begin) + " to " + std::to_string(end) +
                    " (exclusive) of " + base->description() +
                    "; expected at least one sample within it");
  }
  return std::make_shared<RangeView>(std::move(base), begin, end);
}

std::shared_ptr<const Dataset> resized(std::shared_ptr<const Dataset> base, int64_t height,
                                       int64_t width) {
  constexpr int64_t kMaxSide = 1 << 15;
  if (base->spec().shape.size() != 3) {
    throw DataError("cannot resize samples of " + base->description() +
                    "; expected images (height x width x channels)");
  }
  if (height < 1 || width < 1 || height > kMaxSide || width > kMaxSide) {
    throw DataError("cannot resize to " + std::to_string(height) + "x" + std::to_string(width) +
                    "; expected sides of 1.." + std::to_string(kMaxSide));
  }
  return std::make_shared<ResizeView>(std::move(base), height, width);
}

}  // namespace runtime::data
