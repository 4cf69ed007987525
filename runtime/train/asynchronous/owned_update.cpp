// Compiles and runs the optimizer over the range that this rank owns.
#include "runtime/train/asynchronous/owned_update.h"

#include "runtime/exec/encode.h"

namespace runtime::train {

using graph::kNone;

OwnedUpdate::OwnedUpdate(const config::Optimizer& optimizer,
                         const std::vector<std::byte>& parameters, rt_dtype dtype, int items,
                         std::shared_ptr<plugins::host::Device> device,
                         const exec::CompileOptions& options, const parallel::FlatLayout& layout)
    : dtype_(dtype),
      items_(items),
      bytes_(parameters.size()),
      storage_(device),
      arena_(device),
      stream_(device->create_stream()) {
  exec::DeviceTarget target(device, options.target);
  step::Update update = step::compile_update(
      optimizer, static_cast<int64_t>(bytes_ / graph::dtype_bytes(dtype)), dtype, layout, target);
  values_ = update.values;
  notes_ = std::move(update.notes);
  for (std::string& note : target.notes()) notes_.push_back(std::move(note));
  exec::CompileOptions alone = options;
  alone.collectives = nullptr;
  program_ = std::make_unique<exec::Program>(std::move(update.graph), std::move(device), storage_,
                                             arena_, alone);
  const std::vector<std::byte> scale = exec::encode({static_cast<double>(items)}, dtype);
  stream_.copy(address(values_.scale), scale.data(), scale.size());
  write(values_.parameters, parameters);
}

void OwnedUpdate::apply(const std::vector<std::byte>& gradient, double learning_rate) {
  ++updates_;
  const step::UpdateInputs& inputs = values_.inputs;
  std::vector<std::vector<std::byte>> scalars;  // live until the copies have ended
  const auto upload = [&](graph::ValueId id, double value) {
    if (id == kNone) return;
    scalars.push_back(exec::encode({value}, dtype_));
    stream_.copy(address(id), scalars.back().data(), scalars.back().size());
  };
  write(values_.gradients, gradient);
  for (const auto& rate : inputs.learning_rates)
    upload(rate.value, learning_rate * rate.factor / items_);
  upload(inputs.first, updates_ == 1 ? 1 : 0);
  if (inputs.step != kNone) stream_.copy(address(inputs.step), &updates_, sizeof(updates_));
  program_->run(stream_);
  stream_.synchronize();
}

std::vector<std::byte> OwnedUpdate::parameters() {
  return exec::read_bytes(storage_, stream_, program_->graph().value(values_.parameters).name, 0,
                          bytes_);
}

void OwnedUpdate::write(graph::ValueId flat, const std::vector<std::byte>& bytes) {
  exec::write_bytes(storage_, stream_, program_->graph().value(flat).name, 0, bytes);
}

}  // namespace runtime::train
