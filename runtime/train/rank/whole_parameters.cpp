// Cuts and joins parameters along the tensor axis and ZeRO's partitions.
#include "runtime/train/rank/whole_parameters.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/train/weights.h"

namespace runtime::train {

bool WholeParameters::is_partitioned(const HeldParameter& held) const {
  return held.layout != nullptr && model_.setup().strategy.zero_partitions(3);
}

void WholeParameters::write(const HeldParameter& held, std::vector<std::byte> values) {
  values = from_file_order(held.parameter, std::move(values),
                           graph::dtype_bytes(model_.setup().dtype()));
  write_canonical(held, values);
}

void WholeParameters::write_canonical(const HeldParameter& held, std::vector<std::byte>& bytes) {
  if (!held.here) return;
  if (held.slice != nullptr) bytes = parallel::cut(bytes, held.slice->dims, held.slice->split);
  if (!is_partitioned(held)) return model_.write(held, bytes);
  const RankSetup& setup = model_.setup();
  // Each ZeRO partition will be on one rank only, so all must come from the same file: rank 0's.
  setup.collectives()->broadcast(bytes.data(), bytes.size(), 0, parallel::kGradientsCommunicator);
  for (const parallel::Held& h :
       parallel::held(*held.layout, {held.offset, held.offset + bytes.size()},
                      setup.strategy.partition(), setup.strategy.mesh.partitions())) {
    const std::byte* const from = bytes.data() + (h.begin - held.offset);
    model_.write_buffer(held.buffer, h.at, {from, from + (h.end - h.begin)});
  }
}

std::vector<std::byte> WholeParameters::flat_bytes(const std::string& buffer,
                                                   const parallel::FlatLayout& layout,
                                                   int zero_stage) {
  if (layout.bytes == 0 || model_.storage().find(buffer) == nullptr) return {};
  if (!model_.setup().strategy.zero_partitions(zero_stage))
    return model_.read_buffer(buffer, 0, layout.bytes);
  return gathered(buffer, layout);
}

std::vector<std::byte> WholeParameters::gathered(const std::string& buffer,
                                                 const parallel::FlatLayout& layout) {
  const RankSetup& setup = model_.setup();
  const int partitions = setup.strategy.mesh.partitions();
  const std::vector<std::byte> own = model_.read_buffer(buffer, 0, layout.bytes / partitions);
  std::vector<std::byte> all(layout.bytes);
  setup.collectives()->all_gather(own.data(), all.data(), own.size(),
                                  setup.strategy.partitions_communicator());
  return parallel::join_shards(all, layout, partitions);
}

std::vector<std::byte> WholeParameters::unscaled(std::vector<std::byte> gradients) {
  const std::optional<LossScaling> scaling = model_.loss_scaling();
  if (!scaling) return gradients;
  for (size_t at = 0; at < gradients.size(); at += sizeof(float)) {
    float g;
    std::memcpy(&g, gradients.data() + at, sizeof(g));
    g = static_cast<float>(g / scaling->scale);
    std::memcpy(gradients.data() + at, &g, sizeof(g));
  }
  return gradients;
}

std::vector<std::byte> WholeParameters::joined(const HeldParameter& held,
                                               std::vector<std::byte> bytes) {
  const step::Strategy& strategy = model_.setup().strategy;
  const uint64_t element = graph::dtype_bytes(model_.setup().dtype());
  if (!strategy.model_parallel()) return to_file_order(held.parameter, std::move(bytes), element);
  // The bytes of each rank, 0 if it has none; then its data, padded to the largest.
  exec::Collectives& collectives = *model_.setup().collectives();
  std::vector<double> sizes(collectives.world_size());
  sizes[collectives.rank()] = static_cast<double>(bytes.size());
  collectives.all_reduce(sizes.data(), sizes.size(), RT_SUM);
  const auto largest = static_cast<uint64_t>(*std::max_element(sizes.begin(), sizes.end()));
  bytes.resize(largest);
  std::vector<std::byte> all(largest * sizes.size());
  collectives.all_gather(bytes.data(), all.data(), largest);
  std::vector<std::vector<std::byte>> found;
  for (int tensor = 0; tensor < strategy.mesh.tensor; ++tensor) {
    for (int stage = 0; stage < strategy.mesh.pipeline; ++stage) {
      const int rank = strategy.mesh.rank_of({strategy.place.data, tensor, stage});
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(rank * largest);
      if (sizes[rank] == 0) continue;
      found.emplace_back(from, from + static_cast<std::ptrdiff_t>(sizes[rank]));
      break;
    }
  }
  if (found.empty()) return {};
  return to_file_order(
      held.parameter,
      held.slice == nullptr ? found[0] : parallel::join(found, held.slice->dims, held.slice->split),
      element);
}

}  // namespace runtime::train
