// cuDNN on one opened device: turns a graph of operations into plans that a launch can run.
#ifndef BACKENDS_CUDA_CUDNN_SESSION_H_
#define BACKENDS_CUDA_CUDNN_SESSION_H_

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/cudnn_graph.h"
#include "backends/gpu/plan.h"

namespace backends::cuda {

// The library and its handle for one device. One thread at a time may launch with the handle. The
// handle keeps the stream of the latest launch, and the library's documentation does not say when
// it uses that stream again. So the handle never keeps a stream that has been destroyed.
struct Session {
  // Opens the library for the calling thread's device. Throws RT_ERROR_UNAVAILABLE if the library
  // is missing or does not start.
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Lets go of the stream, which is about to be destroyed.
  void forget(cudaStream_t ending);

  gpu::Library library;
  CudnnFunctions call;
  cudnnHandle_t handle = nullptr;
  std::vector<Descriptor> device;  // for tests: the device to plan for, instead of the handle's; at
                                   // most one
  std::mutex mutex;                // guards the handle's stream and launches with the handle
  cudaStream_t stream = nullptr;   // the handle's; nullptr: the default stream, as at first
};

// Dimensions or strides of a tensor; strides are in elements.
using Sizes = std::array<int64_t, 4>;

// A graph of operations. It owns the descriptors that it refers to.
struct Graph {
  explicit Graph(const CudnnFunctions& functions)
      : call(functions), whole(functions, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {}
  // Adds a descriptor, whose address stays valid.
  Descriptor& part(cudnnBackendDescriptorType_t type) { return parts.emplace_back(call, type); }
  // Adds the descriptor of a tensor that begins at a multiple of 16 bytes, which is not final yet.
  Descriptor& tensor(const Sizes& dims, const Sizes& strides, cudnnDataType_t type, int64_t id);
  // Makes the graph final, after `operations` has been filled. Throws RT_ERROR_DEVICE.
  void finalize(const Session& session);

  const CudnnFunctions& call;
  std::deque<Descriptor> parts;
  std::vector<cudnnBackendDescriptor_t> operations;  // those of `parts` that are operations, in
                                                     // order
  std::vector<int64_t> ids;  // of the tensors in memory and of the numbers passed by value
  Descriptor whole;
};

// What an engine may do.
struct Wishes {
  bool exact_float32 = false;         // no tensor cores, because they round float32
  bool compiles_at_run_time = false;  // may it be compiled when the plan is made?
  int64_t most_workspace = 0;         // bytes
  std::vector<int64_t> without;       // the numbers of engines that are not wanted
};

// A plan that can be launched. It keeps what it was made from, and the library that its descriptors
// belong to: the members are destroyed from the last to the first, and the session ends last.
struct Plan {
  std::shared_ptr<Session> session;
  std::shared_ptr<const Graph> graph;
  Descriptor configuration, plan;
  int64_t engine, workspace;  // workspace: bytes
};

// At most `most` plans, the library's preferred one first. Each gives the same bits every time.
// Throws RT_ERROR_DEVICE.
std::vector<std::shared_ptr<const Plan>> find_plans(const std::shared_ptr<Session>& session,
                                                    const std::shared_ptr<const Graph>& graph,
                                                    const Wishes& wishes, size_t most);

// Queues the plan on the stream of the launch. `addresses` are in the order of the graph's ids. Any
// thread may call it. Throws RT_ERROR_DEVICE.
void run(const Plan& plan, const std::vector<void*>& addresses, const gpu::Launch& launch);

}  // namespace backends::cuda

#endif  // BACKENDS_CUDA_CUDNN_SESSION_H_
