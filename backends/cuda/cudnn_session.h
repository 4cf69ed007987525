// cuDNN on one opened device: from a graph of operations to something that a launch can run.
#ifndef BACKENDS_CUDA_CUDNN_SESSION_H_
#define BACKENDS_CUDA_CUDNN_SESSION_H_

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/cudnn_graph.h"
#include "backends/gpu/plan.h"

namespace backends::cuda {

// The library and its handle for one device; one thread at a time launches with the handle.
struct Session {
  // Throws RT_ERROR_UNAVAILABLE where the library is missing or does not start.
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  gpu::Library library;
  CudnnFunctions call;
  cudnnHandle_t handle = nullptr;
  std::vector<Descriptor> device;  // tests: for which device instead of the handle's; at most one
  std::mutex mutex;                // of the handle's stream and what is launched with it
};

// A graph with the descriptors that it points at.
struct Graph {
  explicit Graph(const CudnnFunctions& functions)
      : call(functions), whole(functions, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {}
  Descriptor& part(cudnnBackendDescriptorType_t type) { return parts.emplace_back(call, type); }
  void finalize(const Session& session);

  const CudnnFunctions& call;
  std::deque<Descriptor> parts;
  std::vector<cudnnBackendDescriptor_t> operations;  // some of the parts, in order
  std::vector<int64_t> ids;                          // of the tensors in memory, or given by value
  Descriptor whole;
};

// What the library may use.
struct Wishes {
  bool exact_float32 = false;  // no tensor cores: they round float32
  bool compiles_at_run_time = false;
  int64_t most_workspace = 0;  // bytes
};

// Something that can be launched; keeps what it was made from.
struct Plan {
  std::shared_ptr<const Graph> graph;
  Descriptor configuration, plan;
  int64_t engine, workspace;
};

// At most `most`, the library's favourites first, each the same bits every time.
std::vector<std::shared_ptr<const Plan>> find_plans(const Session& session,
                                                    const std::shared_ptr<const Graph>& graph,
                                                    const Wishes& wishes, size_t most);

// Queues it; `addresses` in the order of the graph's ids.
void run(Session& session, const Plan& plan, const std::vector<void*>& addresses,
         const gpu::Launch& launch);

}  // namespace backends::cuda

#endif  // BACKENDS_CUDA_CUDNN_SESSION_H_
