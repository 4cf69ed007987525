// Lists the tensors that a rank holds with their slices, and reads and writes them.
#include "runtime/train/checkpoint/rank_state.h"

#include <algorithm>

#include "runtime/step/optimizer.h"
#include "runtime/step/ranks.h"

namespace runtime::train {

namespace {

class Collect {
 public:
  Collect(RankModel& model, Writers writers)
      : model_(model),
        setup_(model.setup()),
        writers_(writers),
        element_(graph::dtype_bytes(setup_.dtype())) {}

  std::vector<HeldTensor> run() {
    for (size_t i = 0; i < model_.parameters().size(); ++i) add_parameter(i);
    const exec::Storage& storage = model_.storage();
    if (const uint64_t bytes = storage.bytes(step::kLossScaling); bytes > 0) {
      add({step::kLossScaling, RT_FLOAT32,
           whole_slice({static_cast<int64_t>(bytes / sizeof(float))}),
           storage.find(step::kLossScaling), setup_.strategy.place == parallel::MeshPlace{}});
    }
    return std::move(held_);
  }

 private:
  void add(HeldTensor held) { held_.push_back(std::move(held)); }

  void add_parameter(size_t i) {
    const HeldParameter& p = model_.parameters()[i];
    if (!p.here) return;
    if (p.layout == nullptr) {
      const Slice slice = slice_of(p);
      add({kStatisticsGroup + p.parameter.name, setup_.dtype(), slice,
           model_.storage().find(p.buffer), first_of_tensor_axis(slice)});
      return;
    }
    add_of_buffer(i, kParametersGroup, p.buffer);
    if (p.buffer != step::kParameters) return;  // it is frozen
    for (const std::string& state : step::optimizer_state(setup_.config.optimizer)) {
      if (const exec::Storage* const owned = model_.owned_state()) {
        add_of_owned(p, state, *owned);
      } else {
        add_of_buffer(i, state + "/", state);
      }
    }
  }

  // Adds what this rank has of parameter `i` in a flat buffer, which is whole or a ZeRO partition.
  void add_of_buffer(size_t i, const std::string& group, const std::string& buffer) {
    const HeldParameter& p = model_.parameters()[i];
    const exec::Storage& storage = model_.storage();
    if (storage.bytes(buffer) == 0) return;
    const std::string name = group + p.parameter.name;
    if (storage.bytes(buffer) < p.layout->bytes)
      return add_partitions(name, storage, buffer, *p.layout, p);
    const Slice slice = slice_of(p);
    add({name, setup_.dtype(), slice, storage.find(buffer, p.offset),
         writer_of(i) == setup_.strategy.place.data && first_of_tensor_axis(slice), writer_of(i)});
  }

  // Adds what this rank owns of a parameter in asynchronous training.
  void add_of_owned(const HeldParameter& p, const std::string& state, const exec::Storage& owned) {
    if (owned.bytes(state) == 0) return;
    parallel::FlatLayout layout = *p.layout;
    layout.buckets = {{0, layout.bytes}};  // an owned range is one of the whole buffer
    add_partitions(state + "/" + p.parameter.name, owned, state, layout, p);
  }

  // Adds what lies in this rank's partitions of the buckets, which `buffer` of the storage has.
  void add_partitions(const std::string& name, const exec::Storage& storage,
                      const std::string& buffer, const parallel::FlatLayout& layout,
                      const HeldParameter& p) {
    const Slice slice = slice_of(p);
    const step::Strategy& strategy = setup_.strategy;
    const bool first_copy = strategy.place.data < strategy.mesh.partitions();
    for (const parallel::Held& h :
         parallel::held(layout, {p.offset, p.offset + p.bytes}, strategy.partition(),
                        strategy.mesh.partitions())) {
      Slice part = slice;
      part.begin = static_cast<int64_t>((h.begin - p.offset) / element_);
      part.end = static_cast<int64_t>((h.end - p.offset) / element_);
      add({name, setup_.dtype(), part, storage.find(buffer, h.at),
           first_copy && first_of_tensor_axis(slice)});
    }
  }

  static Slice slice_of(const HeldParameter& p) {
    if (p.slice == nullptr) return whole_slice(p.dims);
    return {p.slice->dims, p.slice->split, 0, graph::element_count(p.dims)};
  }

  // All ranks of the tensor axis have a tensor that is not cut; the first of them writes it.
  bool first_of_tensor_axis(const Slice& slice) const {
    return !slice.split.is_whole() || setup_.strategy.place.tensor == 0;
  }

  // The rank of the data axis that writes parameter `i`, which all of them have.
  int writer_of(size_t i) const {
    return writers_ == Writers::kFirst
               ? 0
               : static_cast<int>(i % static_cast<size_t>(setup_.strategy.mesh.data));
  }

  RankModel& model_;
  const RankSetup& setup_;
  const Writers writers_;
  const uint64_t element_;
  std::vector<HeldTensor> held_;
};

}  // namespace

uint64_t HeldTensor::bytes() const {
  return static_cast<uint64_t>(slice.elements()) * graph::dtype_bytes(dtype);
}

std::vector<HeldTensor> held_tensors(RankModel& model, Writers writers) {
  return Collect(model, writers).run();
}

uint64_t most_written_bytes(RankModel& model) {
  std::vector<uint64_t> shared(model.setup().world_size());  // by the place on the data axis
  uint64_t own = 0;
  for (const HeldTensor& held : held_tensors(model))
    (held.writer < 0 ? own : shared[held.writer]) += held.bytes();
  // A rank that is only planned owns nothing yet.
  if (step::is_asynchronous(model.setup().config, model.setup().world_size()) &&
      model.owned_state() == nullptr)
    own += model.values().buffers.layout.bytes / model.setup().world_size() *
           step::optimizer_state(model.setup().config.optimizer).size();
  return own + *std::max_element(shared.begin(), shared.end());
}

std::vector<WantedSlice> wanted_slices(const std::vector<HeldTensor>& held) {
  std::vector<WantedSlice> wanted;
  for (const HeldTensor& one : held) wanted.push_back({one.name, one.dtype, one.slice});
  return wanted;
}

void write_state(RankModel& model, const std::vector<HeldTensor>& held, const Assembly& state) {
  for (size_t i = 0; i < held.size(); ++i) {
    const std::vector<std::byte>& bytes = state.bytes(i);
    if (!bytes.empty()) model.stream().copy(held[i].address, bytes.data(), bytes.size());
  }
  model.stream().synchronize();
  model.storage().parameters_changed();
}

}  // namespace runtime::train
