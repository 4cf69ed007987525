#include "runtime/train/shard_update.h"

#include "runtime/train/weights.h"

namespace runtime::train {

using graph::kNone;

ShardUpdate::ShardUpdate(const config::Optimizer& optimizer, std::vector<std::byte> parameters,
                         rt_dtype dtype, int parts, std::shared_ptr<plugins::host::Device> device,
                         const exec::CompileOptions& options, const parallel::FlatLayout& layout)
    : dtype_(dtype),
      parts_(parts),
      bytes_(parameters.size()),
      stream_(device->create_stream()),
      storage_(device),
      arena_(device) {
  exec::DeviceTarget target(device, options.target);
  step::Update update = step::compile_update(
      optimizer, static_cast<int64_t>(bytes_ / graph::dtype_bytes(dtype)), dtype, layout, target);
  values_ = update.values;
  program_ = std::make_unique<exec::Program>(std::move(update.graph), std::move(device), storage_,
                                             arena_, nullptr, options.record);
  const std::vector<std::byte> scale = encode({static_cast<double>(parts)}, dtype);
  stream_.copy(address(values_.scale), scale.data(), scale.size());
  stream_.copy(address(values_.parameters), parameters.data(), bytes_);
  stream_.synchronize();
}

void ShardUpdate::apply(const std::vector<std::byte>& gradient, double learning_rate) {
  ++updates_;
  const std::vector<std::byte> rate = encode({learning_rate / parts_}, dtype_);
  stream_.copy(address(values_.gradients), gradient.data(), bytes_);
  stream_.copy(address(values_.learning_rate), rate.data(), rate.size());
  if (values_.step != kNone) stream_.copy(address(values_.step), &updates_, sizeof(updates_));
  program_->run(stream_);
  stream_.synchronize();
}

std::vector<std::byte> ShardUpdate::parameters() {
  std::vector<std::byte> bytes(bytes_);
  stream_.copy(bytes.data(), address(values_.parameters), bytes_);
  stream_.synchronize();
  return bytes;
}

}  // namespace runtime::train
