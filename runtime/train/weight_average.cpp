#include "runtime/train/weight_average.h"

#include "runtime/step/optimizer.h"

namespace runtime::train {

namespace {

constexpr char kParameters[] = "parameters";

}  // namespace

// The address of a persistent buffer; nullptr if this rank has no parameters.
void* WeightAverage::buffer(const char* name) const {
  programs_.any_program();  // makes the buffers
  return programs_.storage().find(name);
}

void WeightAverage::start() {
  if (!exists()) return;
  auto* const average = static_cast<std::byte*>(buffer(step::kAverage));
  const void* const weights = buffer(kParameters);
  if (average == nullptr || weights == nullptr) return;
  const std::vector<std::byte> bytes =
      programs_.read(weights, programs_.storage().bytes(kParameters));
  if (bytes.size() == programs_.storage().bytes(step::kAverage))
    return programs_.write(average, bytes);
  for (const parallel::Held& h :
       parallel::held(programs_.any_program().values.buffers.layout, {0, bytes.size()},
                      programs_.rank(), programs_.world_size())) {
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(h.begin);
    programs_.write(average + h.at, {from, from + static_cast<std::ptrdiff_t>(h.end - h.begin)});
  }
}

std::vector<std::byte> WeightAverage::put_in_place() {
  void* const weights = buffer(kParameters);
  if (weights == nullptr) return {};
  const uint64_t size = programs_.storage().bytes(kParameters);
  std::vector<std::byte> trained = programs_.read(weights, size);
  const void* const average = buffer(step::kAverage);
  restore(size == programs_.storage().bytes(step::kAverage)
              ? programs_.read(average, size)
              : parameters_.gathered(average, programs_.any_program().values.buffers.layout));
  return trained;
}

void WeightAverage::restore(const std::vector<std::byte>& weights) {
  if (weights.empty()) return;
  programs_.write(buffer(kParameters), weights);
  programs_.storage().parameters_changed();
}

}  // namespace runtime::train
