// Fills the moving average with the weights at the start, and puts it in their place and back.
#include "runtime/train/parameters/weight_average.h"

#include "runtime/step/optimizer.h"

namespace runtime::train {

namespace {

constexpr char kParameters[] = "parameters";

}  // namespace

// The bytes of a persistent buffer; 0 if this rank has no parameters.
uint64_t WeightAverage::bytes(const char* name) const {
  programs_.any_compiled();  // makes the buffers
  return programs_.storage().bytes(name);
}

void WeightAverage::start() {
  if (!exists() || bytes(step::kAverage) == 0 || bytes(kParameters) == 0) return;
  const std::vector<std::byte> weights = programs_.read_buffer(kParameters);
  if (weights.size() == bytes(step::kAverage))
    return programs_.write_buffer(step::kAverage, 0, weights);
  for (const parallel::Held& h :
       parallel::held(programs_.any_compiled().values.buffers.layout, {0, weights.size()},
                      programs_.rank(), programs_.world_size())) {
    const auto from = weights.begin() + static_cast<std::ptrdiff_t>(h.begin);
    programs_.write_buffer(step::kAverage, h.at,
                           {from, from + static_cast<std::ptrdiff_t>(h.end - h.begin)});
  }
}

std::vector<std::byte> WeightAverage::put_in_place() {
  if (bytes(kParameters) == 0) return {};
  std::vector<std::byte> trained = programs_.read_buffer(kParameters);
  restore(
      trained.size() == bytes(step::kAverage)
          ? programs_.read_buffer(step::kAverage)
          : parameters_.gathered(step::kAverage, programs_.any_compiled().values.buffers.layout));
  return trained;
}

void WeightAverage::restore(const std::vector<std::byte>& weights) {
  if (weights.empty()) return;
  programs_.write_buffer(kParameters, 0, weights);
  programs_.storage().parameters_changed();
}

}  // namespace runtime::train
