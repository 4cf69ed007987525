// Asks cuDNN's heuristics for engines, keeps the deterministic ones, and runs their plans.
#include "backends/cuda/cudnn_session.h"

#include <algorithm>

#if !defined(BACKENDS_CUDA_CUDNN)
#error "BACKENDS_CUDA_CUDNN is the file name of the library"
#endif

namespace backends::cuda {
namespace {

// At most this many engine configurations are taken from the answer of each heuristic mode.
constexpr int kMostConfigurations = 16;

template <typename T>
bool has(const std::vector<T>& notes, std::initializer_list<T> unwanted) {
  return std::find_first_of(notes.begin(), notes.end(), unwanted.begin(), unwanted.end()) !=
         notes.end();
}

bool is_wanted(const Wishes& wishes, const Descriptor& engine) {
  const auto numerical = engine.values<cudnnBackendNumericalNote_t>(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  const auto behaviour = engine.values<cudnnBackendBehaviorNote_t>(
      CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  if (has(behaviour, {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}) && !wishes.compiles_at_run_time)
    return false;
  // Winograd's method also has a note for each size of its tiles.
  if (has(numerical,
          {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_WINOGRAD,
           CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
           CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, CUDNN_NUMERICAL_NOTE_FFT,
           CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}))
    return false;
  return !wishes.exact_float32 || !has(numerical, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
                                                   CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS});
}

// Engines with their settings, the library's preferred ones first.
std::vector<Descriptor> configurations(const Session& session, const Graph& graph,
                                       cudnnBackendHeurMode_t mode) {
  std::vector<Descriptor> found;
  Descriptor heuristic(session.call, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.whole)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (!session.device.empty()) {
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, session.device[0]);
  }
  if (!heuristic.try_finalize()) return found;
  for (int i = 0; i < kMostConfigurations; ++i) {
    found.emplace_back(session.call, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  }
  const size_t count = heuristic.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, found);
  while (found.size() > count) found.pop_back();
  return found;
}

std::shared_ptr<const Plan> make_plan(const std::shared_ptr<Session>& shared,
                                      const std::shared_ptr<const Graph>& graph,
                                      const Wishes& wishes, Descriptor configuration) {
  const Session& session = *shared;
  std::vector<Descriptor> engine;
  engine.emplace_back(session.call, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  if (configuration.read(CUDNN_ATTR_ENGINECFG_ENGINE, engine) != 1) return nullptr;
  if (!is_wanted(wishes, engine[0])) return nullptr;
  Descriptor plan(session.call, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (session.device.empty()) {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, session.handle);
  } else {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, session.device[0]);
  }
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  if (!plan.try_finalize()) return nullptr;
  const auto one = [](const Descriptor& d, cudnnBackendAttributeName_t name) {
    return d.values<int64_t>(name, CUDNN_TYPE_INT64, 1).at(0);
  };
  const int64_t number = one(engine[0], CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  if (std::find(wishes.without.begin(), wishes.without.end(), number) != wishes.without.end())
    return nullptr;
  const int64_t workspace = one(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  if (workspace > wishes.most_workspace) return nullptr;
  return std::make_shared<const Plan>(
      Plan{shared, graph, std::move(configuration), std::move(plan), number, workspace});
}

}  // namespace

Session::Session() : library(BACKENDS_CUDA_CUDNN), call(library) {
#if defined(BACKENDS_CUDA_CUDNN_DEVICE)
  // For tests: the plans are for a device that is not present, so they cannot run.
  device.emplace_back(call, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  const std::string json = BACKENDS_CUDA_CUDNN_DEVICE;
  device[0].set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                static_cast<int64_t>(json.size()) + 1, json.c_str());
  device[0].finalize();
#else
  const cudnnStatus_t status = call.create(&handle);
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw rt::sdk::Error(RT_ERROR_UNAVAILABLE,
                       rt::sdk::format("cudnnCreate: %s", call.error_string(status)));
#endif
}

Session::~Session() {
  if (handle != nullptr) call.destroy(handle);
}

void Session::forget(cudaStream_t ending) {
  const std::lock_guard lock(mutex);
  if (handle == nullptr || stream != ending) return;
  // After an error, which nobody can handle here, the next launch chooses its stream all the same.
  static_cast<void>(call.set_stream(handle, nullptr));
  stream = nullptr;
}

Descriptor& Graph::tensor(const Sizes& dims, const Sizes& strides, cudnnDataType_t type,
                          int64_t id) {
  return part(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
      .set_integers(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
      .set_integers(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{16});
}

void Graph::finalize(const Session& session) {
  whole.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<int64_t>(operations.size()), operations.data());
  if (session.device.empty()) {
    whole.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, session.handle);
  }
  whole.finalize();
}

std::vector<std::shared_ptr<const Plan>> find_plans(const std::shared_ptr<Session>& session,
                                                    const std::shared_ptr<const Graph>& graph,
                                                    const Wishes& wishes, size_t most) {
  std::vector<std::shared_ptr<const Plan>> found;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (Descriptor& configuration : configurations(*session, *graph, mode)) {
      if (found.size() == most) return found;
      auto plan = make_plan(session, graph, wishes, std::move(configuration));
      if (plan) found.push_back(std::move(plan));
    }
  }
  return found;
}

void run(const Plan& plan, const std::vector<void*>& addresses, const gpu::Launch& launch) {
  Session& session = *plan.session;
  Descriptor pack(session.call, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           static_cast<int64_t>(addresses.size()), addresses.data())
      .set_integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, plan.graph->ids)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, launch.workspace)
      .finalize();
  const std::lock_guard lock(session.mutex);
  if (session.stream != launch.stream) {
    session.call.check(session.call.set_stream(session.handle, launch.stream), "choose the stream");
    session.stream = launch.stream;
  }
  session.call.check(session.call.execute(session.handle, plan.plan.get(), pack.get()),
                     "launch a graph");
}

}  // namespace backends::cuda
