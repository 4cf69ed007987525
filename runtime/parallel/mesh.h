// The device mesh: data x tensor x pipeline. Which part of the batch and of the model a rank has.
#ifndef RUNTIME_PARALLEL_MESH_H_
#define RUNTIME_PARALLEL_MESH_H_

#include <array>

namespace runtime::parallel {

// Communicators of a rank, by use (Collective::communicator). Those of statistics are small and the
// forward or backward pass waits for them: they must not queue behind gradients.
inline constexpr int kGradientsCommunicator = 0;   // the ranks of the data axis
inline constexpr int kStatisticsCommunicator = 1;  // the same ranks
inline constexpr int kTensorCommunicator = 2;      // the ranks of the tensor axis
inline constexpr int kPipelineCommunicator = 3;    // the ranks of the pipeline axis, by stage
// Of asynchronous updates, which have no statistics over ranks.
inline constexpr int kUpdatesCommunicator = 1;

// Axes, and the one that a communicator belongs to.
inline constexpr int kDataAxis = 0, kTensorAxis = 1, kPipelineAxis = 2, kAxes = 3;
inline constexpr const char* kAxisNames[kAxes] = {"data", "tensor", "pipeline"};
inline constexpr int axis_of(int communicator) {
  return communicator < kTensorCommunicator ? kDataAxis : communicator - 1;
}
using ByAxis = std::array<double, kAxes>;

// Indices along the axes.
struct MeshPlace {
  int data = 0, tensor = 0, pipeline = 0;
  bool operator==(const MeshPlace&) const = default;
};

// Degrees of the axes. Ranks of the tensor axis talk most and are neighbours, those of the pipeline
// axis talk least (Narayanan et al., "Efficient large-scale language model training on GPU clusters
// using Megatron-LM", 2021).
struct Mesh {
  int data = 1, tensor = 1, pipeline = 1;

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
};

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_MESH_H_
