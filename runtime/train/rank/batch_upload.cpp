// Converts the numbers of a batch to the types of the step, and queues their copies.
#include "runtime/train/rank/batch_upload.h"

#include <algorithm>
#include <cstring>

#include "runtime/train/options.h"

namespace runtime::train {

using graph::ValueId;

BatchUpload::BatchUpload(const RankSetup& setup, plugins::host::Stream& stream)
    : setup_(setup), weights_(label_weights(setup.config)), upload_(stream) {}

void BatchUpload::upload_scalar(StepProgram& p, ValueId id, double value) {
  void* const to = p.address(id);
  if (to == nullptr) return;
  alignas(8) std::byte bytes[8];
  uint64_t size = 8;
  if (p.graph().value(id).dtype == RT_INT64) {
    const auto v = static_cast<int64_t>(value);
    std::memcpy(bytes, &v, 8);
  } else if (setup_.dtype() == RT_FLOAT64) {
    std::memcpy(bytes, &value, 8);
  } else {
    const auto v = static_cast<float>(value);
    std::memcpy(bytes, &v, size = 4);
  }
  upload_.copy(to, bytes, size);
}

// Queues the copy of float32 numbers of the host to a value of the training type.
void BatchUpload::upload_numbers(StepProgram& p, ValueId id, const float* from, size_t count) {
  void* const to = p.address(id);
  if (to == nullptr) return;
  if (setup_.dtype() == RT_FLOAT32) {
    upload_.copy(to, from, count * sizeof(float));
    return;
  }
  widened_.assign(from, from + count);
  upload_.copy(to, widened_.data(), count * sizeof(double));
}

void BatchUpload::upload_weights(StepProgram& p, ValueId id, const data::Batch& batch,
                                 int64_t first_row, int64_t rows) {
  void* const to = p.address(id);
  if (to == nullptr) return;
  weight_wide_.assign(rows * setup_.spec.labels, 0.0);
  const double all = data::weight_of(batch) * static_cast<double>(setup_.spec.labels);
  const data::LabelWeighing weighing(weights_, setup_.spec, batch);
  for (int64_t i = 0; i < rows; ++i) {
    if (batch.positions[first_row + i] < 0) continue;
    for (int64_t k = 0; k < setup_.spec.labels; ++k) {
      const double weight = weights_.any() ? weighing(first_row + i, k) : 1;
      if (weight > 0) weight_wide_[i * setup_.spec.labels + k] = weight / all;
    }
  }
  weight_.assign(weight_wide_.begin(), weight_wide_.end());
  const void* from =
      setup_.dtype() == RT_FLOAT64 ? static_cast<const void*>(weight_wide_.data()) : weight_.data();
  upload_.copy(to, from, weight_.size() * graph::dtype_bytes(setup_.dtype()));
}

void BatchUpload::upload_input(StepProgram& p, ValueId id, const std::string& name,
                               const data::Batch& batch, int64_t first_row, int64_t rows) {
  const size_t input = *setup_.spec.find_input(name);
  const int64_t count = setup_.spec.inputs[input].numbers();
  const data::InputNumbers& numbers = batch.inputs[input];
  if (!setup_.spec.inputs[input].integers)
    return upload_numbers(p, id, numbers.floats.data() + first_row * count, rows * count);
  if (void* const to = p.address(id))
    upload_.copy(to, numbers.integers.data() + first_row * count, rows * count * sizeof(int32_t));
}

void BatchUpload::upload_real(StepProgram& p, ValueId id, const data::Batch& batch,
                              int64_t first_row, int64_t rows) {
  real_.resize(rows);
  for (int64_t i = 0; i < rows; ++i) real_[i] = batch.positions[first_row + i] < 0 ? 0 : 1;
  upload_numbers(p, id, real_.data(), rows);
}

void BatchUpload::upload(StepProgram& p, const data::Batch& batch, int64_t first_row,
                         double learning_rate, int64_t step, exec::SpanRecorder* spans) {
  const exec::HostSpan span(spans, exec::SpanKind::kUpload);
  const int64_t rows = p.graph().value(p.values.weight).dims[0];
  const size_t features = batch.features.size() / batch.rows;
  const size_t targets = batch.targets.size() / batch.rows;
  upload_.begin_step(p.input_bytes);
  for (const parallel::ShardValues& shard : p.values.shards) {
    upload_numbers(p, shard.features, batch.features.data() + first_row * features,
                   rows * features);
    if (setup_.spec.classes == 0) {
      upload_numbers(p, shard.target, batch.targets.data() + first_row * targets, rows * targets);
    } else if (void* const to = p.address(shard.target)) {
      upload_.copy(to, batch.labels.data() + first_row * setup_.spec.labels,
                   rows * setup_.spec.labels * sizeof(int32_t));
    }
    for (size_t i = 0; i < shard.named.size(); ++i)
      upload_input(p, shard.named[i], p.values.inputs[i].name, batch, first_row, rows);
    upload_weights(p, shard.weight, batch, first_row, rows);
    upload_real(p, shard.real, batch, first_row, rows);
    upload_scalar(p, shard.sample_base,
                  static_cast<double>(std::max<int64_t>(0, batch.positions[first_row])));
    first_row += rows;
  }
  for (const auto& rate : p.values.update.learning_rates)
    upload_scalar(p, rate.value, learning_rate * rate.factor);
  upload_scalar(p, p.values.update.step, static_cast<double>(step + 1));
  upload_scalar(p, p.values.update.first, step == 0 ? 1 : 0);
  upload_scalar(p, p.values.dropout_step, static_cast<double>(step));
  upload_.end_step(spans);
}

}  // namespace runtime::train
