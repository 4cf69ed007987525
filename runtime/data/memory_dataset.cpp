// Keeps features as bytes or floats, and normalises bytes when they are read.
#include "runtime/data/memory_dataset.h"

#include <algorithm>

#include "runtime/error.h"

namespace runtime::data {
namespace {

double value_for(const std::vector<double>& values, std::size_t channel, double fallback) {
  if (values.empty()) return fallback;
  return values[values.size() == 1 ? 0 : channel];
}

void check_numbers(const std::vector<double>& numbers, int64_t channels) {
  if (numbers.size() <= 1 || static_cast<int64_t>(numbers.size()) == channels) return;
  throw ConfigurationError("dataset.mean and dataset.std have " + std::to_string(numbers.size()) +
                           " numbers; expected one, or " + std::to_string(channels) +
                           " (the channels of the data set)");
}

// The numbers of a part, normalised in float64.
std::vector<float> normalised(Part& part, const Normalization& normalization,
                              const std::string& description) {
  std::vector<float> floats = std::move(part.floats);
  if (normalization.mean.empty() && normalization.std.empty() && part.doubles.empty())
    return floats;
  const std::vector<NumberScale> scales = scales_of<double>(normalization, part.shape.back());
  require_floats(part.doubles.size(), description);
  floats.resize(std::max(floats.size(), part.doubles.size()));
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const double number = part.doubles.empty() ? static_cast<double>(floats[i]) : part.doubles[i];
    floats[i] = scales[i % scales.size()](number);
  }
  return floats;
}

}  // namespace

template <class Real>
std::vector<ScaleIn<Real>> scales_of(const Normalization& normalization, int64_t channels) {
  check_numbers(normalization.mean, channels);
  check_numbers(normalization.std, channels);
  std::vector<ScaleIn<Real>> scales(static_cast<std::size_t>(channels));
  for (std::size_t c = 0; c < scales.size(); ++c) {
    scales[c] = {static_cast<Real>(value_for(normalization.mean, c, 0)),
                 static_cast<Real>(value_for(normalization.std, c, 1))};
    if (scales[c].deviation > 0) continue;
    throw ConfigurationError("dataset.std has a number that is not above 0; expected deviations");
  }
  return scales;
}

template std::vector<ChannelScale> scales_of(const Normalization&, int64_t);
template std::vector<NumberScale> scales_of(const Normalization&, int64_t);

std::string HeldPart::description() const {
  SampleSpec spec;
  spec.shape = shape;
  spec.classes = classes;
  spec.targets = targets;
  return describe(title, samples, spec);
}

HeldPart hold(Part part, const Normalization& normalization) {
  HeldPart held{.title = std::move(part.title),
                .shape = part.shape,
                .samples = part.samples,
                .classes = part.targets.classes,
                .targets = part.targets.per_sample};
  held.labels = Held<int32_t>(std::move(part.targets.labels));
  held.values = Held<float>(std::move(part.targets.values));
  held.bytes = std::move(part.bytes);
  if (!held.bytes.data)
    held.floats = Held<float>(normalised(part, normalization, held.description()));
  return held;
}

MemoryDataset::MemoryDataset(HeldPart& part)
    : size_(part.samples),
      features_(numbers_in(part.shape)),
      title_(std::move(part.title)),
      labels_(std::move(part.labels)),
      values_(std::move(part.values)) {
  spec_.shape = part.shape;
  spec_.classes = part.classes;
  spec_.targets = part.targets;
}

int32_t MemoryDataset::label(int64_t index) const { return labels_.data()[index]; }

void MemoryDataset::read_targets(int64_t index, float* out) const {
  std::copy_n(values_.data() + index * spec_.targets, spec_.targets, out);
}

std::string MemoryDataset::description() const { return describe(title_, size_, spec_); }

ByteDataset::ByteDataset(HeldPart part, const Normalization& normalization)
    : MemoryDataset(part), bytes_(std::move(part.bytes)) {
  std::vector<ChannelScale> scales = scales_of<float>(normalization, channels());
  if (normalization.mean.size() <= 1 && normalization.std.size() <= 1) scales.resize(1);
  for (const ChannelScale& scale : scales) {
    std::array<float, 256>& table = tables_.emplace_back();
    for (std::size_t x = 0; x < 256; ++x) table[x] = scale(static_cast<float>(x) / 255.0f);
  }
}

void ByteDataset::read_features(int64_t index, float* out) const {
  const uint8_t* bytes = bytes_.data.get() + index * features();
  const std::size_t count = static_cast<std::size_t>(features());
  if (tables_.size() == 1) {
    const float* table = tables_[0].data();
    for (std::size_t i = 0; i < count; ++i) out[i] = table[bytes[i]];
    return;
  }
  const std::size_t channels = tables_.size();
  for (std::size_t i = 0; i < count; i += channels) {
    for (std::size_t c = 0; c < channels; ++c) out[i + c] = tables_[c][bytes[i + c]];
  }
}

void FloatDataset::read_features(int64_t index, float* out) const {
  std::copy_n(floats_.data() + index * features(), features(), out);
}

std::shared_ptr<const Dataset> make_memory_dataset(HeldPart part,
                                                   const Normalization& normalization) {
  std::vector<InputColumn> inputs = std::move(part.inputs);
  std::shared_ptr<const Dataset> samples;
  if (part.bytes.data)
    samples = std::make_shared<ByteDataset>(std::move(part), normalization);
  else
    samples = std::make_shared<FloatDataset>(std::move(part));
  return with_inputs(std::move(samples), std::move(inputs));
}

std::string describe(const std::string& title, int64_t size, const SampleSpec& spec) {
  const std::string target = spec.classes > 0 ? std::to_string(spec.classes) + " classes"
                                              : std::to_string(spec.targets) + " targets";
  return title + ", " + std::to_string(size) + " samples of " + shape_text(spec.shape) + ", " +
         target;
}

}  // namespace runtime::data
