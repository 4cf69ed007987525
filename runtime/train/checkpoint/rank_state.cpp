// Lists the tensors that a rank holds with their slices, and reads and writes them.
#include "runtime/train/checkpoint/rank_state.h"

#include <algorithm>

#include "runtime/step/optimizer.h"
#include "runtime/step/ranks.h"

namespace runtime::train {

namespace {

class Collect {
 public:
  Collect(StepPrograms& programs, Writers writers)
      : programs_(programs),
        writers_(writers),
        program_(programs.any_compiled()),
        strategy_(programs.strategy()),
        element_(graph::dtype_bytes(programs.dtype())) {}

  std::vector<HeldTensor> run() {
    for (size_t i = 0; i < program_.values.parameters.size(); ++i) add_parameter(i);
    if (const uint64_t bytes = programs_.storage().bytes(step::kLossScaling); bytes > 0) {
      add({step::kLossScaling, RT_FLOAT32,
           whole_slice({static_cast<int64_t>(bytes / sizeof(float))}),
           programs_.storage().find(step::kLossScaling), strategy_.place == parallel::MeshPlace{}});
    }
    return std::move(held_);
  }

 private:
  void add(HeldTensor held) { held_.push_back(std::move(held)); }

  void add_parameter(size_t i) {
    const model::Parameter& parameter = program_.values.parameters[i];
    if (!program_.program->uses(parameter.value)) return;  // of another stage
    const graph::Value& view = program_.graph().value(parameter.value);
    const Slice slice = slice_of(i, view);
    if (!parameter.trainable) {
      add({std::string(kStatisticsGroup) + parameter.name, programs_.dtype(), slice,
           static_cast<std::byte*>(program_.program->address(parameter.value)),
           first_of_tensor_axis(slice)});
      return;
    }
    const parallel::StepBuffers& b = program_.values.buffers;
    const bool frozen = view.base == b.frozen;
    const parallel::FlatLayout& layout = frozen ? b.frozen_layout : b.layout;
    add_of_buffer(i, kParametersGroup, frozen ? "frozen" : "parameters", layout, view, slice);
    if (frozen) return;
    for (const std::string& state : step::optimizer_state(programs_.config().optimizer)) {
      if (const exec::Storage* const owned = programs_.owned_state()) {
        add_of_owned(i, state, *owned, layout, view, slice);
      } else {
        add_of_buffer(i, state + "/", state, layout, view, slice);
      }
    }
  }

  // Adds what this rank has of parameter `i` in a flat buffer, which is whole or a ZeRO partition.
  void add_of_buffer(size_t i, const std::string& group, const std::string& buffer,
                     const parallel::FlatLayout& layout, const graph::Value& view,
                     const Slice& slice) {
    const exec::Storage& storage = programs_.storage();
    if (storage.bytes(buffer) == 0) return;
    const std::string name = group + program_.values.parameters[i].name;
    if (storage.bytes(buffer) >= layout.bytes) {
      add({name, programs_.dtype(), slice, storage.find(buffer, view.offset),
           writer_of(i) == strategy_.place.data && first_of_tensor_axis(slice), writer_of(i)});
      return;
    }
    add_partitions(name, storage, buffer, layout, view, slice);
  }

  // Adds what this rank owns of parameter `i` in asynchronous training.
  void add_of_owned(size_t i, const std::string& state, const exec::Storage& owned,
                    parallel::FlatLayout layout, const graph::Value& view, const Slice& slice) {
    if (owned.bytes(state) == 0) return;
    layout.buckets = {{0, layout.bytes}};  // an owned range is one of the whole buffer
    add_partitions(state + "/" + program_.values.parameters[i].name, owned, state, layout, view,
                   slice);
  }

  // Adds what lies in this rank's partitions of the buckets, which `buffer` of the storage has.
  void add_partitions(const std::string& name, const exec::Storage& storage,
                      const std::string& buffer, const parallel::FlatLayout& layout,
                      const graph::Value& view, const Slice& slice) {
    const uint64_t end = view.offset + static_cast<uint64_t>(slice.elements()) * element_;
    for (const parallel::Held& h :
         parallel::held(layout, {view.offset, end}, programs_.rank(), programs_.world_size())) {
      Slice part = slice;
      part.begin = static_cast<int64_t>((h.begin - view.offset) / element_);
      part.end = static_cast<int64_t>((h.end - view.offset) / element_);
      add({name, programs_.dtype(), part, storage.find(buffer, h.at), first_of_tensor_axis(slice)});
    }
  }

  Slice slice_of(size_t i, const graph::Value& view) const {
    if (program_.values.sharded.empty()) return whole_slice(view.dims);
    const parallel::ShardedParameter& sharded = program_.values.sharded[i];
    return {sharded.dims, sharded.split, 0, graph::element_count(view.dims)};
  }

  // All ranks of the tensor axis have a tensor that is not cut; the first of them writes it.
  bool first_of_tensor_axis(const Slice& slice) const {
    return !slice.split.is_whole() || strategy_.place.tensor == 0;
  }

  // The rank of the data axis that writes parameter `i`, which all of them have.
  int writer_of(size_t i) const {
    return writers_ == Writers::kFirst
               ? 0
               : static_cast<int>(i % static_cast<size_t>(strategy_.mesh.data));
  }

  StepPrograms& programs_;
  const Writers writers_;
  StepProgram& program_;
  const step::Strategy& strategy_;
  const uint64_t element_;
  std::vector<HeldTensor> held_;
};

}  // namespace

uint64_t HeldTensor::bytes() const {
  return static_cast<uint64_t>(slice.elements()) * graph::dtype_bytes(dtype);
}

std::vector<HeldTensor> held_tensors(StepPrograms& programs, Writers writers) {
  return Collect(programs, writers).run();
}

uint64_t most_written_bytes(StepPrograms& programs) {
  std::vector<uint64_t> shared(programs.world_size());  // by the place on the data axis
  uint64_t own = 0;
  for (const HeldTensor& held : held_tensors(programs))
    (held.writer < 0 ? own : shared[held.writer]) += held.bytes();
  // A rank that is only planned owns nothing yet.
  if (step::is_asynchronous(programs.config(), programs.world_size()) &&
      programs.owned_state() == nullptr)
    own += programs.any_compiled().values.buffers.layout.bytes / programs.world_size() *
           step::optimizer_state(programs.config().optimizer).size();
  return own + *std::max_element(shared.begin(), shared.end());
}

std::vector<WantedSlice> wanted_slices(const std::vector<HeldTensor>& held) {
  std::vector<WantedSlice> wanted;
  for (const HeldTensor& one : held) wanted.push_back({one.name, one.dtype, one.slice});
  return wanted;
}

void write_state(StepPrograms& programs, const std::vector<HeldTensor>& held,
                 const Assembly& state) {
  for (size_t i = 0; i < held.size(); ++i) {
    const std::vector<std::byte>& bytes = state.bytes(i);
    if (!bytes.empty()) programs.stream().copy(held[i].address, bytes.data(), bytes.size());
  }
  programs.stream().synchronize();
  programs.storage().parameters_changed();
}

}  // namespace runtime::train
