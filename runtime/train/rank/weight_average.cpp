// Fills the moving average with the weights at the start, and puts it in their place and back.
#include "runtime/train/rank/weight_average.h"

#include "runtime/step/optimizer.h"

namespace runtime::train {

void WeightAverage::start() {
  exec::Storage& storage = model_.storage();
  if (!exists() || storage.bytes(step::kAverage) == 0 || storage.bytes(step::kParameters) == 0)
    return;
  const std::vector<std::byte> weights = model_.read_buffer(step::kParameters);
  if (weights.size() == storage.bytes(step::kAverage))
    return model_.write_buffer(step::kAverage, 0, weights);
  for (const parallel::Held& h : parallel::held(model_.values().buffers.layout, {0, weights.size()},
                                                model_.setup().strategy.partition(),
                                                model_.setup().strategy.mesh.partitions())) {
    const auto from = weights.begin() + static_cast<std::ptrdiff_t>(h.begin);
    model_.write_buffer(step::kAverage, h.at,
                        {from, from + static_cast<std::ptrdiff_t>(h.end - h.begin)});
  }
}

std::vector<std::byte> WeightAverage::put_in_place() {
  if (model_.storage().bytes(step::kParameters) == 0) return {};
  std::vector<std::byte> trained = model_.read_buffer(step::kParameters);
  restore(trained.size() == model_.storage().bytes(step::kAverage)
              ? model_.read_buffer(step::kAverage)
              : parameters_.gathered(step::kAverage, model_.values().buffers.layout));
  return trained;
}

void WeightAverage::restore(const std::vector<std::byte>& weights) {
  if (weights.empty()) return;
  model_.write_buffer(step::kParameters, 0, weights);
  model_.storage().parameters_changed();
}

}  // namespace runtime::train
