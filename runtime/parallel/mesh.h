// The device mesh data x tensor x pipeline: which samples and which parameters a rank has.
// Equivalent to: torch.distributed.DeviceMesh, and Megatron-LM's parallel groups.
#ifndef RUNTIME_PARALLEL_MESH_H_
#define RUNTIME_PARALLEL_MESH_H_

#include <array>
#include <cstddef>
#include <vector>

namespace runtime::parallel {

// The communicators of a rank, by use (Collective::communicator). Statistics have one of their own,
// because their collectives are small and the forward or backward pass waits for them, so they must
// not queue behind gradients.
inline constexpr int kGradientsCommunicator = 0;   // the ranks of the data axis
inline constexpr int kStatisticsCommunicator = 1;  // also the ranks of the data axis
inline constexpr int kTensorCommunicator = 2;      // the ranks of the tensor axis
inline constexpr int kPipelineCommunicator = 3;    // the ranks of the pipeline axis, by stage
// For the updates of asynchronous training, which has no statistics over ranks.
inline constexpr int kUpdatesCommunicator = 1;
// With Mesh::replicas() above 1: the ranks that together hold one copy of what ZeRO divides, and
// those that hold the same partition of it.
inline constexpr int kPartitionsCommunicator = 4;
inline constexpr int kReplicasCommunicator = 5;
inline constexpr int kCommunicators = 6;
inline constexpr std::array<const char*, kCommunicators> kCommunicatorNames = {
    "gradients", "statistics", "tensor", "pipeline", "partitions", "replicas"};
static_assert(kCommunicatorNames.back() != nullptr, "each communicator has a name");

// The axes, and the axis that a communicator belongs to.
inline constexpr int kDataAxis = 0, kTensorAxis = 1, kPipelineAxis = 2, kAxes = 3;
inline constexpr const char* kAxisNames[kAxes] = {"data", "tensor", "pipeline"};
inline constexpr int axis_of(int communicator) {
  return communicator == kTensorCommunicator     ? kTensorAxis
         : communicator == kPipelineCommunicator ? kPipelineAxis
                                                 : kDataAxis;
}
using ByAxis = std::array<double, kAxes>;

// A rank's index along each axis.
struct MeshPlace {
  int data = 0, tensor = 0, pipeline = 0;
  bool operator==(const MeshPlace&) const = default;
};

// The degrees of the axes. Ranks of the tensor axis communicate most, so they are neighbours; those
// of the pipeline axis communicate least (Narayanan et al., "Efficient large-scale language model
// training on GPU clusters using Megatron-LM", 2021).
struct Mesh {
  int data = 1, tensor = 1, pipeline = 1;
  // Neighbours on the data axis among which ZeRO divides its state; the others hold copies of it.
  // 0: all of them. Equivalent to: the inner dimension of PyTorch's HYBRID_SHARD.
  int zero_ranks = 0;

  // How many partitions ZeRO makes, and how many ranks of the data axis hold each.
  int partitions() const { return zero_ranks > 0 ? zero_ranks : data; }
  int replicas() const { return data / partitions(); }
  int size() const { return data * tensor * pipeline; }
  int degree(int axis) const {
    return axis == kDataAxis ? data : axis == kTensorAxis ? tensor : pipeline;
  }
  int rank_of(const MeshPlace& place) const {
    return (place.pipeline * data + place.data) * tensor + place.tensor;
  }
  MeshPlace place_of(int rank) const {
    return {rank / tensor % data, rank % tensor, rank / (tensor * data)};
  }
  // The ranks that differ from `rank` only in their index along `axis`, in the order of that index.
  std::vector<int> along(int axis, int rank) const {
    int MeshPlace::*const index = axis == kDataAxis     ? &MeshPlace::data
                                  : axis == kTensorAxis ? &MeshPlace::tensor
                                                        : &MeshPlace::pipeline;
    MeshPlace place = place_of(rank);
    std::vector<int> ranks;
    for (int i = 0; i < degree(axis); ++i) {
      place.*index = i;
      ranks.push_back(rank_of(place));
    }
    return ranks;
  }
  // The ranks that share a communicator with `rank`, in their order.
  std::vector<int> members(int communicator, int rank) const {
    std::vector<int> ranks = along(axis_of(communicator), rank);
    if (communicator != kPartitionsCommunicator && communicator != kReplicasCommunicator)
      return ranks;
    const int place = place_of(rank).data, zero = partitions();
    std::vector<int> some;
    for (int i = 0; i < data; ++i) {
      const bool same = communicator == kPartitionsCommunicator ? i / zero == place / zero
                                                                : i % zero == place % zero;
      if (same) some.push_back(ranks[static_cast<std::size_t>(i)]);
    }
    return some;
  }
};

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_MESH_H_
