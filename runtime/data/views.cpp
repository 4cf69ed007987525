// Ranges, splits and resized images over another data set.
#include "runtime/data/views.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <sstream>

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
  std::string file(int64_t index) const override { return base_->file(begin_ + index); }
  void read_labels(int64_t index, int32_t* out) const override {
    base_->read_labels(begin_ + index, out);
  }
  void read_targets(int64_t index, float* out) const override {
    base_->read_targets(begin_ + index, out);
  }
  void read_samples(std::span<const int64_t> indices, float* features, int32_t* labels,
                    float* targets) const override {
    for_pieces(indices, [&](std::span<const int64_t> piece) {
      base_->read_samples(piece, features, labels, targets);
      const auto moved = static_cast<int64_t>(piece.size());
      features += moved * spec().features();
      if (labels != nullptr) labels += moved * spec().labels;
      if (targets != nullptr) targets += moved * spec().targets;
    });
  }
  void read_input(std::span<const int64_t> indices, std::size_t input,
                  InputArray out) const override {
    const int64_t numbers = spec().inputs[input].numbers();
    for_pieces(indices, [&](std::span<const int64_t> piece) {
      base_->read_input(piece, input, out);
      const auto moved = static_cast<int64_t>(piece.size()) * numbers;
      if (out.floats != nullptr) out.floats += moved;
      if (out.integers != nullptr) out.integers += moved;
    });
  }
  void read_region(int64_t index, const RandomRegion& region, float* out,
                   float* scratch) const override {
    base_->read_region(begin_ + index, region, out, scratch);
  }
  std::string description() const override {
    return base_->description() + " (" + std::to_string(size_) + " of them, from " +
           std::to_string(begin_) + ")";
  }

 private:
  // Calls `read` with the samples of the base, in pieces, so that nothing is allocated.
  template <class Read>
  void for_pieces(std::span<const int64_t> indices, const Read& read) const {
    if (begin_ == 0) return read(indices);
    std::array<int64_t, 64> shifted;
    while (!indices.empty()) {
      const std::size_t count = std::min(indices.size(), shifted.size());
      for (std::size_t i = 0; i < count; ++i) shifted[i] = begin_ + indices[i];
      read(std::span<const int64_t>(shifted.data(), count));
      indices = indices.subspan(count);
    }
  }

  std::shared_ptr<const Dataset> base_;
  int64_t begin_, size_;
};

// Buffers for one sample of the base data set. Each reading thread takes one and returns it, so
// that nothing is allocated after the first reads.
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
  ResizeView(std::shared_ptr<const Dataset> base, ImageSize size, int64_t shorter)
      : base_(std::move(base)),
        spec_(base_->spec()),
        bilinear_({spec_.shape[0], spec_.shape[1]}, size, shorter),
        pool_(static_cast<std::size_t>(spec_.features())) {
    spec_.shape = {size.height, size.width, spec_.shape[2]};
  }
  const SampleSpec& spec() const override { return spec_; }
  int64_t size() const override { return base_->size(); }
  void read_features(int64_t index, float* out) const override {
    BufferPool::Buffer image = pool_.take();
    base_->read_features(index, image.get());
    bilinear_.apply(image.get(), spec_.shape[2], out);
    pool_.put(std::move(image));
  }
  int32_t label(int64_t index) const override { return base_->label(index); }
  void read_targets(int64_t index, float* out) const override { base_->read_targets(index, out); }
  void read_input(std::span<const int64_t> indices, std::size_t input,
                  InputArray out) const override {
    base_->read_input(indices, input, out);
  }
  std::string description() const override {
    return base_->description() + ", resized to " + shape_text(spec_.shape);
  }

 private:
  std::shared_ptr<const Dataset> base_;
  SampleSpec spec_;
  Bilinear bilinear_;
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

// count * split is a whole number where the split that was written makes one, but binary numbers
// may miss it by a rounding error: 10 * (1 - 0.8) is below 2.
int64_t training_samples(int64_t count, double split, const std::string& what) {
  const double exact = static_cast<double>(count) * split;
  const double whole = std::round(exact);
  const bool is_whole = std::abs(exact - whole) <= static_cast<double>(count) * 0x1p-50;
  const int64_t training = count - static_cast<int64_t>(is_whole ? whole : std::ceil(exact));
  if (split == 0 || (training > 0 && training < count)) return split == 0 ? count : training;
  std::ostringstream words;
  words << "dataset.validation_split = " << split << " of " << count << ' ' << what
        << " leaves one part empty; expected " << what << " in both: set another share, or use "
        << "more data";
  throw DataError(words.str());
}

DatasetPair split_at(std::shared_ptr<const Dataset> all, int64_t training) {
  if (training == all->size()) return {std::move(all), nullptr};
  auto validation = range_of(all, training, all->size());
  return {range_of(std::move(all), 0, training), std::move(validation)};
}

std::shared_ptr<const Dataset> resized(std::shared_ptr<const Dataset> base, ImageSize size,
                                       int64_t shorter) {
  constexpr int64_t kMaxSide = 1 << 15;
  if (base->spec().shape.size() != 3) {
    throw DataError("cannot resize samples of " + base->description() +
                    "; expected images (height x width x channels)");
  }
  if (size.height < 1 || size.width < 1 || size.height > kMaxSide || size.width > kMaxSide) {
    throw DataError("cannot resize to " + shape_text({size.height, size.width}) +
                    "; expected sides of 1.." + std::to_string(kMaxSide));
  }
  return std::make_shared<ResizeView>(std::move(base), size, shorter);
}

}  // namespace runtime::data
