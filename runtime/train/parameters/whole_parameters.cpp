// Cuts and joins parameters along the tensor axis and ZeRO's partitions.
#include "runtime/train/parameters/whole_parameters.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/train/weights.h"

namespace runtime::train {

using graph::kNone;
using graph::ValueId;

bool WholeParameters::holds_parts(int zero_stage) const {
  return programs_.config().parallelism.zero_stage >= zero_stage && programs_.world_size() > 1;
}

void WholeParameters::write(StepProgram& p, const model::Parameter& parameter,
                            std::vector<std::byte> values) {
  values = from_file_order(parameter, std::move(values), graph::dtype_bytes(programs_.dtype()));
  write_canonical(p, parameter, values);
}

void WholeParameters::write_canonical(StepProgram& p, const model::Parameter& parameter,
                                      std::vector<std::byte>& bytes) {
  if (!p.program->uses(parameter.value)) return;
  if (const parallel::ShardedParameter* part = sharded(p, parameter))
    bytes = parallel::cut(bytes, part->dims, part->split);
  const parallel::FlatLayout* const layout = layout_of_parts(p, parameter);
  if (layout == nullptr) return programs_.write(p.program->address(parameter.value), bytes);
  // Each ZeRO partition will be on one rank only, so all must come from the same file: rank 0's.
  programs_.collectives()->broadcast(bytes.data(), bytes.size(), 0,
                                     parallel::kGradientsCommunicator);
  const graph::Value& view = p.graph().value(parameter.value);
  const std::string& flat = p.graph().value(view.base).name;
  for (const parallel::Held& h :
       parallel::held(*layout, {view.offset, view.offset + bytes.size()},
                      programs_.strategy().batch.rank, programs_.strategy().batch.world_size)) {
    const std::byte* const from = bytes.data() + (h.begin - view.offset);
    programs_.write_buffer(flat, h.at, {from, from + (h.end - h.begin)});
  }
}

const parallel::FlatLayout* WholeParameters::layout_of_parts(
    const StepProgram& p, const model::Parameter& parameter) const {
  const parallel::StepBuffers& buffers = p.values.buffers;
  const ValueId base = p.graph().value(parameter.value).base;
  if (!holds_parts(3) || base == kNone) return nullptr;
  return base == buffers.frozen ? &buffers.frozen_layout : &buffers.layout;
}

std::vector<std::byte> WholeParameters::flat_bytes(const StepProgram& p, ValueId flat,
                                                   const parallel::FlatLayout& layout,
                                                   int zero_stage) {
  if (flat == kNone || layout.bytes == 0) return {};
  const std::string& name = p.graph().value(flat).name;
  if (programs_.storage().find(name) == nullptr) return {};
  if (!holds_parts(zero_stage)) return programs_.read_buffer(name, 0, layout.bytes);
  return gathered(name, layout);
}

std::vector<std::byte> WholeParameters::gathered(const std::string& buffer,
                                                 const parallel::FlatLayout& layout) {
  const std::vector<std::byte> own =
      programs_.read_buffer(buffer, 0, layout.bytes / programs_.strategy().batch.world_size);
  std::vector<std::byte> all(layout.bytes);
  programs_.collectives()->all_gather(own.data(), all.data(), own.size(),
                                      parallel::kGradientsCommunicator);
  return parallel::join_shards(all, layout, programs_.strategy().batch.world_size);
}

std::vector<std::byte> WholeParameters::unscaled(std::vector<std::byte> gradients) {
  const std::optional<LossScaling> scaling = programs_.loss_scaling();
  if (!scaling) return gradients;
  for (size_t at = 0; at < gradients.size(); at += sizeof(float)) {
    float g;
    std::memcpy(&g, gradients.data() + at, sizeof(g));
    g = static_cast<float>(g / scaling->scale);
    std::memcpy(gradients.data() + at, &g, sizeof(g));
  }
  return gradients;
}

const parallel::ShardedParameter* WholeParameters::sharded(
    const StepProgram& p, const model::Parameter& parameter) const {
  if (p.values.sharded.empty()) return nullptr;
  return &p.values.sharded[&parameter - p.values.parameters.data()];
}

std::vector<std::byte> WholeParameters::joined(const StepProgram& p,
                                               const model::Parameter& parameter,
                                               std::vector<std::byte> bytes) {
  const uint64_t element = graph::dtype_bytes(programs_.dtype());
  if (!programs_.strategy().model_parallel())
    return to_file_order(parameter, std::move(bytes), element);
  // The bytes of each rank, 0 if it has none; then its data, padded to the largest.
  std::vector<double> sizes(programs_.collectives()->world_size());
  sizes[programs_.collectives()->rank()] = static_cast<double>(bytes.size());
  programs_.collectives()->all_reduce(sizes.data(), sizes.size(), RT_SUM);
  const auto largest = static_cast<uint64_t>(*std::max_element(sizes.begin(), sizes.end()));
  bytes.resize(largest);
  std::vector<std::byte> all(largest * sizes.size());
  programs_.collectives()->all_gather(bytes.data(), all.data(), largest);
  std::vector<std::vector<std::byte>> found;
  for (int tensor = 0; tensor < programs_.strategy().mesh.tensor; ++tensor) {
    for (int stage = 0; stage < programs_.strategy().mesh.pipeline; ++stage) {
      const int rank =
          programs_.strategy().mesh.rank_of({programs_.strategy().place.data, tensor, stage});
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(rank * largest);
      if (sizes[rank] == 0) continue;
      found.emplace_back(from, from + static_cast<std::ptrdiff_t>(sizes[rank]));
      break;
    }
  }
  if (found.empty()) return {};
  const parallel::ShardedParameter* part = sharded(p, parameter);
  return to_file_order(parameter,
                       part == nullptr ? found[0] : parallel::join(found, part->dims, part->split),
                       element);
}

}  // namespace runtime::train
