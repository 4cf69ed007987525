// The convolutions by cuDNN. The graph API, not the functions of old: what the device does not do
// shows when the plan is made, not when it runs; engines say whether they are deterministic and use
// tensor cores; padding may differ between the sides.
#include <algorithm>
#include <mutex>

#include "backends/cuda/convolution.h"
#include "backends/cuda/cudnn_graph.h"
#include "backends/cuda/passes.h"
#include "backends/cuda/provider.h"

#if !defined(BACKENDS_CUDA_CUDNN)
#error "BACKENDS_CUDA_CUDNN is the file name of the library"
#endif

namespace backends::cuda {
namespace {

using gpu::Kernel;
using gpu::Launch;
using rt::sdk::Error;
using rt::sdk::format;

constexpr int64_t kMostConfigurations = 16;               // of engines, of each list of heuristics
constexpr int64_t kMostConvolutionWorkspace = 256 << 20;  // bytes

// The library and its handle for one device; one thread at a time launches with the handle.
struct Session {
  Session() : library(BACKENDS_CUDA_CUDNN), call(library) {
#if defined(BACKENDS_CUDA_CUDNN_DEVICE)  // tests: plans for that device, which nothing can run
    device.emplace_back(call, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    const std::string json = BACKENDS_CUDA_CUDNN_DEVICE;
    device[0].set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                  static_cast<int64_t>(json.size()) + 1, json.c_str());
    device[0].finalize();
#else
    const cudnnStatus_t status = call.create(&handle);
    if (status == CUDNN_STATUS_SUCCESS) return;
    throw Error(RT_ERROR_UNAVAILABLE, format("cudnnCreate: %s", call.error_string(status)));
#endif
  }
  ~Session() {
    if (handle != nullptr) call.destroy(handle);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Says for which device a graph, a heuristic or a plan is.
  void aim(Descriptor& d, cudnnBackendAttributeName_t of_handle,
           cudnnBackendAttributeName_t of_device) const {
    if (device.empty()) {
      d.set(of_handle, CUDNN_TYPE_HANDLE, handle);
    } else {
      d.set(of_device, device[0]);
    }
  }

  Library library;
  CudnnFunctions call;
  cudnnHandle_t handle = nullptr;
  std::vector<Descriptor> device;  // at most one
  std::mutex mutex;                // of the handle's stream and what is launched with it
};

cudnnDataType_t type_of(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT64:
      return CUDNN_DATA_DOUBLE;
    case RT_FLOAT16:
      return CUDNN_DATA_HALF;
    case RT_BFLOAT16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}
// Sums are made, and results handed from one operation of a graph to the next, in this type.
cudnnDataType_t compute_type(rt_dtype dtype) {
  return dtype == RT_FLOAT64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

// Which operand of the operation a tensor of a graph is; also its unique id.
int64_t id_of(uint32_t index, bool is_output) { return is_output ? 100 + index : 1 + index; }

// The descriptors of a graph, from its tensors to the whole.
class Graph {
 public:
  Graph(const Session& session, const Convolution& c)
      : call_(session.call), c_(c), graph_(call_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    // Kept while others point at them: no reallocation.
    parts_.reserve(32);
    add_convolution();
    if (c.residual >= 0) add_sum(tensor(c.result.dims, c.result.strides, c.residual));
    if (c.bias >= 0) {
      const int64_t o = c.result.dims[1];
      add_sum(tensor({1, o, 1, 1}, {o, 1, o, o}, c.bias));
    }
    if (c.relu) add_relu();
    std::vector<cudnnBackendDescriptor_t> raw;
    for (const Descriptor* operation : operations_) raw.push_back(operation->get());
    graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
               static_cast<int64_t>(raw.size()), raw.data());
    if (session.device.empty()) {
      graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, session.handle);
    }
    graph_.finalize();
  }

  const Descriptor& get() const { return graph_; }
  // Ids of the tensors in memory.
  const std::vector<int64_t>& ids() const { return ids_; }

 private:
  using Sizes = std::array<int64_t, 4>;

  Descriptor& part(cudnnBackendDescriptorType_t type) { return parts_.emplace_back(call_, type); }

  Descriptor& describe(const Sizes& dims, const Sizes& strides, cudnnDataType_t type, int64_t id) {
    return part(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
        .set_integers(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
        .set_integers(CUDNN_ATTR_TENSOR_STRIDES, strides)
        .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{16});
  }
  // In memory.
  const Descriptor& tensor(const Sizes& dims, const Sizes& strides, int64_t index,
                           bool is_output = false) {
    ids_.push_back(id_of(static_cast<uint32_t>(index), is_output));
    return describe(dims, strides, type_of(c_.dtype), ids_.back()).finalize();
  }
  const Descriptor& tensor(const Tensor4& t) {
    return tensor(t.dims, t.strides, t.index, t.is_output);
  }
  // What the next operation writes: the output, or what the one after it reads.
  const Descriptor& next_result() {
    if (++made_ > c_.fused) return tensor(c_.result.dims, c_.result.strides, 0, true);
    return describe(c_.result.dims, c_.result.strides, compute_type(c_.dtype), 200 + made_)
        .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true)
        .finalize();
  }
  void factor(Descriptor& d, cudnnBackendAttributeName_t name, double value) const {
    const auto narrow = static_cast<float>(value);
    if (c_.dtype == RT_FLOAT64) {
      d.set(name, CUDNN_TYPE_DOUBLE, value);
    } else {
      d.set(name, CUDNN_TYPE_FLOAT, narrow);
    }
  }

  const Descriptor& window() {
    return part(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
        .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, compute_type(c_.dtype))
        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
        .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2})
        .set_integers(CUDNN_ATTR_CONVOLUTION_DILATIONS, c_.dilation)
        .set_integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c_.stride)
        .set_integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c_.pad_before)
        .set_integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, c_.pad_after)
        .finalize();
  }

  // The attributes of an operation that differ in name only between the directions.
  struct Names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t alpha, beta, window, image, weights, result;
  };
  static Names names_of(Direction direction) {
    switch (direction) {
      case Direction::kForward:
        return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
      case Direction::kBackwardData:
        return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
      default:
        return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
    }
  }

  void add_convolution() {
    const Names names = names_of(c_.direction);
    const bool forward = c_.direction == Direction::kForward;
    const Descriptor &image = tensor(c_.image), &weights = tensor(c_.weights),
                     &result = forward ? next_result() : tensor(c_.result),
                     &window = this->window();
    last_ = &result;
    Descriptor& d = part(names.type);
    d.set(names.window, window).set(names.image, image).set(names.weights, weights);
    d.set(names.result, result);
    factor(d, names.alpha, 1);
    factor(d, names.beta, 0);
    operations_.push_back(&d.finalize());
  }

  Descriptor& pointwise(cudnnPointwiseMode_t mode) {
    Descriptor& how =
        part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
            .set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
            .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, compute_type(c_.dtype))
            .finalize();
    const Descriptor& result = next_result();
    Descriptor& d = part(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
                        .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how)
                        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *last_)
                        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, result);
    last_ = &result;
    return d;
  }
  void add_sum(const Descriptor& other) {
    Descriptor& d = pointwise(CUDNN_POINTWISE_ADD).set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, other);
    operations_.push_back(&d.finalize());
  }
  void add_relu() { operations_.push_back(&pointwise(CUDNN_POINTWISE_RELU_FWD).finalize()); }

  const CudnnFunctions& call_;
  const Convolution c_;
  std::vector<Descriptor> parts_;
  std::vector<const Descriptor*> operations_;
  std::vector<int64_t> ids_;
  const Descriptor* last_ = nullptr;  // what the latest operation wrote
  uint32_t made_ = 0;                 // results so far
  Descriptor graph_;
};

template <typename T>
bool has(const std::vector<T>& notes, std::initializer_list<T> unwanted) {
  return std::any_of(unwanted.begin(), unwanted.end(), [&](T note) {
    return std::find(notes.begin(), notes.end(), note) != notes.end();
  });
}

// What can be launched; keeps what it was made from.
struct Plan {
  std::shared_ptr<const Graph> graph;
  Descriptor configuration, plan;
  int64_t engine, workspace;
};

class Cudnn : public gpu::Vendor {
 public:
  explicit Cudnn(bool tf32) : session_(std::make_shared<Session>()), tf32_(tf32) {}

  std::vector<Kernel> kernels(const Operation& op, size_t most, std::string* without) override {
    // The graph with bias and activation has fewer engines: with fewer until there is one.
    for (uint32_t fused = op.post_op_count();; --fused) {
      const auto c = convolution_of(op, fused);
      if (!c) return {};
      std::vector<Kernel> kernels;
      for (const auto& plan : plans(*c, most, without)) kernels.push_back(make(op, *c, plan));
      fused = c->fused;
      if (!kernels.empty()) without->clear();
      if (!kernels.empty() || fused == 0) return kernels;
    }
  }

 private:
  bool uses_tf32(const Convolution& c) const { return tf32_ && c.dtype == RT_FLOAT32; }

  // The same bits every time, at the precision of the types, without a compiler at run time.
  bool is_wanted(const Convolution& c, const Descriptor& engine) const {
    const auto numerical = engine.values<cudnnBackendNumericalNote_t>(
        CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
        CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    const auto behaviour = engine.values<cudnnBackendBehaviorNote_t>(
        CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
    if (has(behaviour, {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION})) return false;
    if (has(numerical,
            {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_WINOGRAD,
             CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}))
      return false;
    const bool exact = c.dtype == RT_FLOAT32 && !tf32_;
    return !exact || !has(numerical, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
                                      CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS});
  }

  // Engines with their settings, the library's favourites first.
  std::vector<Descriptor> configurations(const Graph& graph, cudnnBackendHeurMode_t mode) const {
    const CudnnFunctions& call = session_->call;
    std::vector<Descriptor> found;
    Descriptor heuristic(call, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get())
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    if (!session_->device.empty()) {
      heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, session_->device[0]);
    }
    if (!heuristic.try_finalize()) return found;
    for (int64_t i = 0; i < kMostConfigurations; ++i) {
      found.emplace_back(call, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    const size_t count = heuristic.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, found);
    while (found.size() > count) found.pop_back();
    return found;
  }

  std::vector<std::shared_ptr<const Plan>> plans(const Convolution& c, size_t most,
                                                 std::string* without) const {
    std::vector<std::shared_ptr<const Plan>> found;
    *without = "cuDNN has no deterministic engine in this precision";
    try {
      const auto graph = std::make_shared<const Graph>(*session_, c);
      for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
        for (Descriptor& configuration : configurations(*graph, mode)) {
          if (found.size() == most) return found;
          if (auto plan = make_plan(c, graph, std::move(configuration))) found.push_back(plan);
        }
      }
    } catch (const Error& refusal) {  // this version of the library does not know it
      *without = refusal.what();
    }
    return found;
  }

  std::shared_ptr<const Plan> make_plan(const Convolution& c, std::shared_ptr<const Graph> graph,
                                        Descriptor configuration) const {
    const CudnnFunctions& call = session_->call;
    std::vector<Descriptor> engine;
    engine.emplace_back(call, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (configuration.read(CUDNN_ATTR_ENGINECFG_ENGINE, engine) != 1) return nullptr;
    if (!is_wanted(c, engine[0])) return nullptr;
    Descriptor plan(call, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    session_->aim(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    if (!plan.try_finalize()) return nullptr;
    const auto one = [](const Descriptor& d, cudnnBackendAttributeName_t name) {
      return d.values<int64_t>(name, CUDNN_TYPE_INT64, 1).at(0);
    };
    const int64_t workspace = one(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    if (workspace > kMostConvolutionWorkspace) return nullptr;
    const int64_t number = one(engine[0], CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    return std::make_shared<const Plan>(
        Plan{std::move(graph), std::move(configuration), std::move(plan), number, workspace});
  }

  Kernel make(const Operation& op, const Convolution& c, std::shared_ptr<const Plan> plan) const {
    Kernel kernel;
    kernel.workspace_bytes = static_cast<uint64_t>(plan->workspace);
    kernel.implementation = format("cudnn engine %lld%s", static_cast<long long>(plan->engine),
                                   uses_tf32(c) ? " tf32" : "");
    if (uses_tf32(c)) kernel.tolerance = kToleranceTf32;
    Pass rest = post_pass(op, c.fused);
    if (c.direction == Direction::kBackwardWeights && op.output_count() > 1) {
      uint64_t bytes = 0;
      rest = bias_gradient_pass(op, &bytes);
      kernel.workspace_bytes = std::max(kernel.workspace_bytes, bytes);
    }
    kernel.run = [session = session_, plan, rest](const Launch& l) {
      run(*session, *plan, l);
      if (rest) rest(l);
    };
    return kernel;
  }

  static void run(Session& session, const Plan& plan, const Launch& l) {
    std::vector<void*> addresses;
    for (const int64_t id : plan.graph->ids()) {
      addresses.push_back(id >= 100 ? l.outputs[id - 100] : const_cast<void*>(l.inputs[id - 1]));
    }
    Descriptor pack(session.call, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
             static_cast<int64_t>(addresses.size()), addresses.data())
        .set_integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, plan.graph->ids())
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, l.workspace)
        .finalize();
    const std::lock_guard lock(session.mutex);
    session.call.check(session.call.set_stream(session.handle, l.stream), "choose the stream");
    session.call.check(session.call.execute(session.handle, plan.plan.get(), pack.get()),
                       "launch a convolution");
  }

  std::shared_ptr<Session> session_;
  bool tf32_;
};

}  // namespace

std::unique_ptr<gpu::Vendor> open_cudnn(bool tf32) { return std::make_unique<Cudnn>(tf32); }

}  // namespace backends::cuda
