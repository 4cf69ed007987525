// Samples tokens, and runs the window once and then single tokens over the cache.
#include "runtime/train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/data/philox.h"
#include "runtime/error.h"
#include "runtime/exec/encode.h"
#include "runtime/train/weights.h"

namespace runtime::train {

using graph::ValueId;
using step::Purpose;

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
  const auto likelier = [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  if (const auto k = static_cast<size_t>(sampling.top_k); k > 0 && k < ids.size()) {
    std::partial_sort(ids.begin(), ids.begin() + sampling.top_k, ids.end(), likelier);
    ids.resize(k);
  } else if (sampling.top_p < 1) {
    std::sort(ids.begin(), ids.end(), likelier);
  }
  std::vector<double> sums;
  double sum = 0;
  for (const int32_t id : ids)
    sums.push_back(sum += std::exp((logits[id] - *first_largest) / sampling.temperature));
  if (sampling.top_p < 1) {
    const auto enough = std::lower_bound(sums.begin(), sums.end(), sampling.top_p * sum);
    sums.resize(std::min<size_t>(enough - sums.begin() + 1, sums.size()));
    sum = sums.back();
  }
  const data::PhiloxCounter random =
      data::random_block(sampling.seed, data::RandomUse::kGeneration, 0, position);
  const double unit = (random[0] >> 5) * 0x1p-27 + (random[1] >> 6) * 0x1p-53;
  const auto drawn = std::upper_bound(sums.begin(), sums.end(), unit * sum);
  return ids[std::min<size_t>(drawn - sums.begin(), sums.size() - 1)];
}

Generator::Generator(StepPrograms& programs, const Sampling& sampling, std::vector<int32_t> prompt,
                     bool cached)
    : programs_(programs),
      sampling_(sampling),
      ids_(std::move(prompt)),
      batch_(data::zero_batch(programs.setup().spec, 1)),
      extends_(cached && model::can_extend(programs.setup().model)) {
  // A window of a text that is continued is one document, whose number is 0.
  if (const auto positions = programs.setup().spec.find_input("positions")) {
    auto& places = batch_.inputs[*positions].integers;
    std::iota(places.begin(), places.end(), 0);
  }
}

int32_t Generator::next() {
  const size_t context = batch_.features.size();
  if (ids_.size() > context) {
    ids_.erase(ids_.begin(), ids_.end() - static_cast<int64_t>(context));
    cached_ = 0;
  }
  cached_ > 0 && cached_ + 1 == ids_.size() ? run_token() : run_window();
  ids_.push_back(sample_token(logits_, sampling_, position_++));
  return ids_.back();
}

void Generator::run_window() {
  // Positions behind the last token are not set: the model is causal, so no position reads them.
  std::copy(ids_.begin(), ids_.end(), batch_.features.begin());
  // The tokens of a full window move before the next one is computed, so that nothing keeps them.
  const bool keeps = extends_ && ids_.size() < batch_.features.size();
  if (keeps) token_program();  // first, because making it may move the outputs of the other
  StepProgram& p = programs_.compiled(
      programs_.setup().whole(extends_ ? Purpose::kPrompt : Purpose::kEvaluation, 1));
  programs_.upload(p, batch_, 0, 0, 0);
  p.program->run(programs_.stream());
  cached_ = 0;
  if (keeps) {
    for (size_t i = 0; i < p.values.cache.tensors.size(); ++i)
      keep(i, p.address(p.values.cache.tensors[i]), ids_.size());
    cached_ = ids_.size();
  }
  read_logits(p, ids_.size() - 1);
}

void Generator::run_token() {
  StepProgram& p = token_program();
  write(p, p.values.features, {static_cast<double>(ids_.back())});
  write(p, p.values.cache.position, {static_cast<double>(cached_)});
  for (const model::KeyValueCache::Mask& mask : p.values.cache.masks)
    write(p, mask.value, mask_of(mask.window));
  p.program->run(programs_.stream());
  for (size_t i = 0; i < p.values.cache.tensors.size(); ++i)
    keep(i, p.address(p.values.cache.tensors[i]), 1);
  ++cached_;
  read_logits(p, 0);
}

std::vector<double> Generator::mask_of(int64_t window) const {
  std::vector<double> mask(batch_.features.size() + 1, -INFINITY);
  const size_t seen = window == 0 ? cached_ : std::min(cached_, static_cast<size_t>(window - 1));
  mask[0] = 0;
  std::fill_n(mask.begin() + static_cast<int64_t>(1 + cached_ - seen), seen, 0);
  return mask;
}

StepProgram& Generator::token_program() {
  return programs_.compiled(programs_.setup().whole(Purpose::kToken, 1));
}

// Queues the copy of `tokens` rows to tensor `i` of the cache, behind those that it has.
void Generator::keep(size_t i, const void* from, size_t tokens) {
  const StepProgram& p = token_program();
  const ValueId tensor = p.values.cache.tensors[i];
  const uint64_t row =
      graph::canonical_bytes(p.graph().value(tensor)) / (batch_.features.size() + 1);
  auto* const rows = static_cast<std::byte*>(p.address(tensor));
  programs_.stream().copy(rows + (1 + cached_) * row, from, tokens * row);
}

// Does nothing if the program does not read the value.
void Generator::write(const StepProgram& p, ValueId id, const std::vector<double>& numbers) {
  if (void* const to = p.address(id))
    exec::write_memory(programs_.stream(), to, exec::encode(numbers, p.graph().value(id).dtype));
}

// Reads the logits of one position of the window.
void Generator::read_logits(const StepProgram& p, size_t row) {
  const graph::Value& output = p.graph().value(p.values.output);
  const uint64_t bytes = output.dims.back() * graph::dtype_bytes(output.dtype);
  const auto* const rows = static_cast<const std::byte*>(p.address(p.values.output));
  logits_ = numbers_of({output.dtype,
                        {output.dims.back()},
                        exec::read_memory(programs_.stream(), rows + row * bytes, bytes)});
  logits_.resize(programs_.setup().spec.classes);  // the model may have more outputs than that
}

}  // namespace runtime::train
