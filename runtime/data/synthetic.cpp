// Draws samples from a pool of random numbers, with targets that can be learned.
#include "runtime/data/synthetic.h"

#include <cmath>

#include "runtime/data/memory_dataset.h"
#include "runtime/data/philox.h"
#include "runtime/error.h"

namespace runtime::data {
namespace {

// Number of places in the pool at which the range of a sample may begin.
constexpr std::size_t kPoolStarts = 1 << 16;
constexpr int64_t kMaxFeatures = int64_t{1} << 28;
constexpr float kNoise = 0.5f;

// Returns uniform numbers of mean 0 and variance 1.
std::vector<float> make_pool(uint64_t seed, std::size_t size) {
  const float spread = std::sqrt(12.0f);
  std::vector<float> pool(size);
  for (std::size_t i = 0; i < size; ++i) {
    const PhiloxCounter block = random_block(seed, RandomUse::kSyntheticPool, 0, i / 4);
    pool[i] = (static_cast<float>(block[i % 4] >> 8) * 0x1p-24f - 0.5f) * spread;
  }
  return pool;
}

int64_t checked_features(const SyntheticOptions& options) {
  int64_t count = 1;
  bool valid = !options.shape.empty();
  for (const int64_t dim : options.shape) {
    valid =
        valid && dim > 0 && !__builtin_mul_overflow(count, dim, &count) && count <= kMaxFeatures;
  }
  if (!valid) {
    throw ConfigurationError("a synthetic data set cannot have samples of shape " +
                             shape_text(options.shape) + "; expected 1..2^28 features");
  }
  return count;
}

void check_counts(const SyntheticOptions& options) {
  if (options.samples < 1) {
    throw ConfigurationError("a synthetic data set has dataset.samples = " +
                             std::to_string(options.samples) + "; expected at least 1");
  }
  const bool classes = options.classes > 0 && options.classes <= kMaxClasses;
  if (classes == (options.targets > 0)) {
    throw ConfigurationError(
        "a synthetic data set has dataset.classes = " + std::to_string(options.classes) +
        "; expected 1.." + std::to_string(kMaxClasses) + ", or task = \"regression\"");
  }
}

class Synthetic final : public Dataset {
 public:
  explicit Synthetic(const SyntheticOptions& options)
      : spec_{options.shape, options.classes, options.targets},
        size_(options.samples),
        seed_(options.seed),
        features_(static_cast<std::size_t>(checked_features(options))),
        pool_(make_pool(seed_, kPoolStarts + features_)) {}

  const SampleSpec& spec() const override { return spec_; }
  int64_t size() const override { return size_; }

  void read_features(int64_t index, float* out) const override {
    const float* noise = stretch(Purpose::kSample, index);
    if (spec_.classes == 0) {
      for (std::size_t i = 0; i < features_; ++i) out[i] = noise[i];
      return;
    }
    const float* centroid = stretch(Purpose::kCentroid, label(index));
    for (std::size_t i = 0; i < features_; ++i) out[i] = centroid[i] + kNoise * noise[i];
  }

  int32_t label(int64_t index) const override {
    return static_cast<int32_t>(index % spec_.classes);
  }

  void read_targets(int64_t index, float* out) const override {
    const float* features = stretch(Purpose::kSample, index);
    const float scale = 1.0f / std::sqrt(static_cast<float>(features_));
    for (int64_t target = 0; target < spec_.targets; ++target) {
      const float* weights = stretch(Purpose::kWeights, target);
      float sum = 0;
      for (std::size_t i = 0; i < features_; ++i) sum += weights[i] * features[i];
      out[target] = sum * scale;
    }
  }

  std::string description() const override { return describe("synthetic", size_, spec_); }

 private:
  enum class Purpose : uint32_t { kSample, kCentroid, kWeights };

  const float* stretch(Purpose purpose, int64_t index) const {
    const PhiloxCounter block =
        random_block(seed_, RandomUse::kSyntheticOffset, static_cast<uint32_t>(purpose),
                     static_cast<uint64_t>(index));
    return pool_.data() + block[0] % kPoolStarts;
  }

  SampleSpec spec_;
  int64_t size_;
  uint64_t seed_;
  std::size_t features_;
  std::vector<float> pool_;
};

}  // namespace

std::shared_ptr<const Dataset> make_synthetic(const SyntheticOptions& options) {
  check_counts(options);
  return std::make_shared<Synthetic>(options);
}

}  // namespace runtime::data
