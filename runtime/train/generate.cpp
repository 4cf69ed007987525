#include "runtime/train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/data/philox.h"
#include "runtime/error.h"

namespace runtime::train {

int32_t sample_token(std::span<const double> logits, const Sampling& sampling, uint64_t position) {
  if (!std::all_of(logits.begin(), logits.end(), [](double l) { return std::isfinite(l); })) {
    throw NumericError(
        "the model's output has a number that is not finite; use weights that were saved before "
        "the loss became so");
  }
  const auto first_largest = std::max_element(logits.begin(), logits.end());
  if (sampling.temperature == 0) return static_cast<int32_t>(first_largest - logits.begin());
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (const auto k = static_cast<size_t>(sampling.top_k); k > 0 && k < ids.size()) {
    std::partial_sort(ids.begin(), ids.begin() + sampling.top_k, ids.end(),
                      [&](int32_t a, int32_t b) {
                        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                      });
    ids.resize(k);
  }
  std::vector<double> sums;
  double sum = 0;
  for (const int32_t id : ids)
    sums.push_back(sum += std::exp((logits[id] - *first_largest) / sampling.temperature));
  const data::PhiloxCounter random =
      data::random_block(sampling.seed, data::RandomUse::kGeneration, 0, position);
  const double unit = (random[0] >> 5) * 0x1p-27 + (random[1] >> 6) * 0x1p-53;
  const auto drawn = std::upper_bound(sums.begin(), sums.end(), unit * sum);
  return ids[std::min<size_t>(drawn - sums.begin(), ids.size() - 1)];
}

Generator::Generator(Trainer& trainer, const data::SampleSpec& spec, const Sampling& sampling,
                     std::vector<int32_t> prompt)
    : trainer_(trainer),
      vocabulary_(spec.classes),
      sampling_(sampling),
      ids_(std::move(prompt)),
      batch_(data::zero_batch(spec, 1)) {}

int32_t Generator::next() {
  const size_t context = batch_.features.size();
  if (ids_.size() > context) ids_.erase(ids_.begin(), ids_.end() - static_cast<int64_t>(context));
  // Positions behind the last token are not set: the model is causal, so no position reads them.
  std::copy(ids_.begin(), ids_.end(), batch_.features.begin());
  const std::vector<double> logits = trainer_.outputs(batch_);
  const std::span<const double> last =
      std::span(logits).subspan((ids_.size() - 1) * (logits.size() / context), vocabulary_);
  ids_.push_back(sample_token(last, sampling_, position_++));
  return ids_.back();
}

}  // namespace runtime::train
