// Finds the places of parameters in a program, and copies them from and to the device.
#include "runtime/train/rank/rank_model.h"

#include <cstring>

#include "runtime/error.h"

namespace runtime::train {

void RankModel::describe(const StepProgram& program) {
  if (values_) return;
  values_ = program.values;
  const parallel::StepBuffers& flat = values_->buffers;
  for (size_t i = 0; i < values_->parameters.size(); ++i) {
    const model::Parameter& parameter = values_->parameters[i];
    const graph::Value& value = program.graph().value(parameter.value);
    const auto [buffer, offset] = program.graph().place_of(parameter.value);
    const parallel::FlatLayout* layout = buffer == flat.frozen ? &flat.frozen_layout : &flat.layout;
    if (buffer == parameter.value) layout = nullptr;
    parameters_.push_back({parameter, program.program->uses(parameter.value), value.dims,
                           graph::canonical_bytes(value), program.graph().value(buffer).name,
                           offset, layout,
                           values_->sharded.empty() ? nullptr : &values_->sharded[i]});
  }
}

const step::StepValues& RankModel::values() const {
  if (!values_)
    throw InternalError("the parameters of a rank were asked for before it had a program");
  return *values_;
}

const std::vector<HeldParameter>& RankModel::parameters() const {
  values();
  return parameters_;
}

std::vector<std::byte> RankModel::read(const HeldParameter& held) {
  if (!held.here) return {};
  return read_buffer(held.buffer, held.offset, held.bytes);
}

void RankModel::write(const HeldParameter& held, const std::vector<std::byte>& bytes) {
  write_buffer(held.buffer, held.offset, bytes);
}

std::vector<std::byte> RankModel::read_buffer(const std::string& name, uint64_t begin,
                                              uint64_t bytes) {
  return exec::read_bytes(storage_, stream_, name, begin, bytes);
}

std::vector<std::byte> RankModel::read_buffer(const std::string& name) {
  return read_buffer(name, 0, storage_.bytes(name));
}

void RankModel::write_buffer(const std::string& name, uint64_t begin,
                             const std::vector<std::byte>& bytes) {
  exec::write_bytes(storage_, stream_, name, begin, bytes);
}

std::optional<LossScaling> RankModel::loss_scaling() {
  if (storage_.find(step::kLossScaling) == nullptr) return std::nullopt;
  const std::vector<std::byte> bytes = read_buffer(step::kLossScaling);
  float numbers[3];
  std::memcpy(numbers, bytes.data(), sizeof(numbers));
  return LossScaling{numbers[0], static_cast<int64_t>(numbers[2])};
}

}  // namespace runtime::train
