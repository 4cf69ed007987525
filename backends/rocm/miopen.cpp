// The convolutions by MIOpen's immediate mode. The library ranks solutions by its own estimates,
// without measuring, and compiles a solution when it is chosen and not when it runs. Source:
// "MIOpen", chapter "Using the find APIs and immediate mode", AMD.
#include "backends/rocm/miopen.h"

#include <miopen/miopen.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <type_traits>

#include "backends/gpu/convolution.h"
#include "backends/gpu/convolution_work.h"
#include "backends/gpu/library.h"
#include "backends/gpu/passes.h"

#if !defined(BACKENDS_ROCM_MIOPEN)
#error "BACKENDS_ROCM_MIOPEN is the file name of the library"
#endif

namespace backends::rocm {
namespace {

using gpu::Convolution;
using gpu::Direction;
using gpu::Kernel;
using gpu::Launch;
using gpu::Tensor4;
using rt::sdk::Error;
using rt::sdk::format;
using Solution = miopenConvSolution_t;

constexpr uint64_t kMostWorkspace = 256 << 20;  // bytes
constexpr size_t kMostSolutions = 32;           // that are considered

// The functions of one direction. All three directions have the same parameters, but each has its
// own order of the tensors, in which the result is the last one.
struct DirectionFunctions {
  DirectionFunctions(const gpu::Library& library, const std::string& direction) {
    const std::string prefix = "miopenConvolution" + direction;
    library.find((prefix + "GetSolution").c_str(), solutions);
    library.find((prefix + "CompileSolution").c_str(), compile);
    library.find((prefix + "Immediate").c_str(), launch);
  }
  decltype(&miopenConvolutionForwardGetSolution) solutions;
  decltype(&miopenConvolutionForwardCompileSolution) compile;
  decltype(&miopenConvolutionForwardImmediate) launch;
};
template <typename Forward, typename... Others>
constexpr bool kSame = (std::is_same_v<Forward, Others> && ...);
static_assert(kSame<decltype(miopenConvolutionForwardGetSolution),
                    decltype(miopenConvolutionBackwardDataGetSolution),
                    decltype(miopenConvolutionBackwardWeightsGetSolution)>);
static_assert(kSame<decltype(miopenConvolutionForwardCompileSolution),
                    decltype(miopenConvolutionBackwardDataCompileSolution),
                    decltype(miopenConvolutionBackwardWeightsCompileSolution)>);
static_assert(kSame<decltype(miopenConvolutionForwardImmediate),
                    decltype(miopenConvolutionBackwardDataImmediate),
                    decltype(miopenConvolutionBackwardWeightsImmediate)>);

// The functions of the library that are used, looked up at run time.
struct Functions {
  explicit Functions(const gpu::Library& library)
      : forward(library, "Forward"),
        backward_data(library, "BackwardData"),
        backward_weights(library, "BackwardWeights") {
    library.find("miopenCreate", create);
    library.find("miopenDestroy", destroy);
    library.find("miopenSetStream", set_stream);
    library.find("miopenGetErrorString", error_string);
    library.find("miopenCreateTensorDescriptor", create_tensor);
    library.find("miopenDestroyTensorDescriptor", destroy_tensor);
    library.find("miopenSetNdTensorDescriptorWithLayout", set_tensor);
    library.find("miopenCreateConvolutionDescriptor", create_window);
    library.find("miopenDestroyConvolutionDescriptor", destroy_window);
    library.find("miopenInitConvolutionNdDescriptor", set_window);
    library.find("miopenSetConvolutionGroupCount", set_groups);
    library.find("miopenSetConvolutionAttribute", set_attribute);
  }
  void check(miopenStatus_t status, const char* what) const {
    if (status == miopenStatusSuccess) return;
    Error error(RT_ERROR_DEVICE, format("MIOpen: %s failed: %s", what, error_string(status)),
                RT_SCOPE_DEVICE);
    throw error.native("MIOpen", status);
  }

  DirectionFunctions forward, backward_data, backward_weights;
  decltype(&miopenCreate) create;
  decltype(&miopenDestroy) destroy;
  decltype(&miopenSetStream) set_stream;
  decltype(&miopenGetErrorString) error_string;
  decltype(&miopenCreateTensorDescriptor) create_tensor;
  decltype(&miopenDestroyTensorDescriptor) destroy_tensor;
  decltype(&miopenSetNdTensorDescriptorWithLayout) set_tensor;
  decltype(&miopenCreateConvolutionDescriptor) create_window;
  decltype(&miopenDestroyConvolutionDescriptor) destroy_window;
  decltype(&miopenInitConvolutionNdDescriptor) set_window;
  decltype(&miopenSetConvolutionGroupCount) set_groups;
  decltype(&miopenSetConvolutionAttribute) set_attribute;
};

// The library and its handle, which keeps the compiled kernels. One thread at a time may use the
// handle.
struct Session {
  Session() : library(BACKENDS_ROCM_MIOPEN), call(library) {
    const miopenStatus_t status = call.create(&handle);
    if (status == miopenStatusSuccess) return;
    throw Error(RT_ERROR_UNAVAILABLE, format("miopenCreate: %s", call.error_string(status)));
  }
  ~Session() { call.destroy(handle); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  gpu::Library library;
  Functions call;
  miopenHandle_t handle = nullptr;
  std::mutex mutex;  // guards the handle's stream and everything that uses the handle
};

miopenDataType_t type_of(rt_dtype dtype) {
  if (dtype == RT_FLOAT16) return miopenHalf;
  return dtype == RT_BFLOAT16 ? miopenBFloat16 : miopenFloat;
}

bool fits(const Tensor4& t) {
  return std::all_of(t.dims.begin(), t.dims.end(),
                     [](int64_t n) { return n <= std::numeric_limits<int>::max(); });
}

// One of the library's structs. The library makes and frees it.
template <typename Pointer>
using Owned = std::unique_ptr<std::remove_pointer_t<Pointer>, miopenStatus_t (*)(Pointer)>;

// The library's description of a convolution. Immutable; any thread may call its functions.
class Problem {
 public:
  Problem(std::shared_ptr<Session> session, const Convolution& c)
      : session_(std::move(session)),
        tensors_(in_order(c)),
        functions_(functions_of(c.direction)),
        first_(describe(tensors_[0], c.dtype)),
        second_(describe(tensors_[1], c.dtype)),
        made_(describe(tensors_[2], c.dtype)),
        window_(window(c)) {}

  // Compiled solutions, at most `most`, the library's preferred one first. Only implicit GEMM is
  // taken. Of the library's other algorithms for this layout, Winograd rounds more, GEMM uses
  // memory of the handle, which launches on two streams would share, and the direct ones are slow
  // and meant for checks.
  std::vector<Solution> solutions(size_t most) const {
    const std::lock_guard lock(session_->mutex);
    std::vector<Solution> known(kMostSolutions), chosen;
    size_t count = 0;
    call().check(functions_.solutions(session_->handle, first_.get(), second_.get(), window_.get(),
                                      made_.get(), known.size(), &count, known.data()),
                 "list solutions");
    known.resize(std::min(count, known.size()));
    for (const Solution& s : known) {
      if (chosen.size() == most) break;
      if (s.algorithm != miopenConvolutionAlgoImplicitGEMM) continue;
      if (s.workspace_size <= kMostWorkspace && compiles(s)) chosen.push_back(s);
    }
    return chosen;
  }

  void run(const Solution& chosen, const Launch& l) const {
    const auto read = [&](size_t i) { return l.inputs[tensors_[i].index]; };
    void* const scratch = chosen.workspace_size > 0 ? l.workspace : nullptr;
    const std::lock_guard lock(session_->mutex);
    call().check(call().set_stream(session_->handle, l.stream), "choose the stream");
    call().check(functions_.launch(session_->handle, first_.get(), read(0), second_.get(), read(1),
                                   window_.get(), made_.get(), l.outputs[0], scratch,
                                   chosen.workspace_size, chosen.solution_id),
                 "launch a convolution");
  }

 private:
  using Tensor = Owned<miopenTensorDescriptor_t>;
  using Window = Owned<miopenConvolutionDescriptor_t>;

  static std::array<Tensor4, 3> in_order(const Convolution& c) {
    switch (c.direction) {
      case Direction::kForward:
        return {c.weights, c.image, c.result};
      case Direction::kBackwardData:
        return {c.result, c.weights, c.image};
      default:
        return {c.result, c.image, c.weights};
    }
  }
  const Functions& call() const { return session_->call; }
  const DirectionFunctions& functions_of(Direction direction) const {
    if (direction == Direction::kForward) return call().forward;
    return direction == Direction::kBackwardData ? call().backward_data : call().backward_weights;
  }
  bool compiles(const Solution& s) const {
    return functions_.compile(session_->handle, first_.get(), second_.get(), window_.get(),
                              made_.get(), s.solution_id) == miopenStatusSuccess;
  }

  Tensor describe(const Tensor4& t, rt_dtype dtype) const {
    miopenTensorDescriptor_t made = nullptr;
    call().check(call().create_tensor(&made), "create a tensor");
    Tensor owned(made, call().destroy_tensor);
    std::array<int, 4> dims;
    std::copy(t.dims.begin(), t.dims.end(), dims.begin());
    call().check(call().set_tensor(made, type_of(dtype), miopenTensorNHWC, dims.data(), 4),
                 "describe a tensor");
    return owned;
  }

  Window window(const Convolution& c) const {
    miopenConvolutionDescriptor_t made = nullptr;
    call().check(call().create_window(&made), "create a convolution");
    Window owned(made, call().destroy_window);
    const auto narrow = [](const std::array<int64_t, 2>& pair) {
      return std::array<int, 2>{static_cast<int>(pair[0]), static_cast<int>(pair[1])};
    };
    call().check(call().set_window(made, 2, narrow(c.pad_before).data(), narrow(c.stride).data(),
                                   narrow(c.dilation).data(), miopenConvolution),
                 "describe a convolution");
    const int64_t groups = c.image.dims[1] / c.weights.dims[1];
    call().check(call().set_groups(made, static_cast<int>(groups)), "set the groups");
    call().check(call().set_attribute(made, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1),
                 "ask for the same bits every time");
    // If this were on, gradients of float16 would be computed from operands rounded to bfloat16 on
    // gfx90a.
    call().check(call().set_attribute(made, MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL, 0),
                 "ask for float16 as it is");
    return owned;
  }

  // Shared with the kernels, so that the library and its handle exist as long as a kernel does,
  // even if the device's Miopen object has been destroyed.
  std::shared_ptr<Session> session_;
  std::array<Tensor4, 3> tensors_;  // in the order of the library's functions
  const DirectionFunctions& functions_;
  Tensor first_, second_, made_;
  Window window_;
};

class Miopen : public gpu::Vendor {
 public:
  std::vector<Kernel> kernels(const gpu::Operation& op, size_t most,
                              std::string* without) override {
    std::vector<Kernel> kernels;
    const auto c = gpu::convolution_of(op, 0);
    if (!c || c->dtype == RT_FLOAT64) return kernels;
    *without = refusal(*c);
    if (!without->empty()) return kernels;
    *without = "MIOpen has no deterministic implicit GEMM for this convolution";
    try {
      const auto problem = std::make_shared<const Problem>(session_, *c);
      for (const Solution& s : problem->solutions(most))
        kernels.push_back(make(op, *c, problem, s));
      if (!kernels.empty()) without->clear();
    } catch (const Error& reason) {  // this version of the library does not support it
      *without = reason.what();
    }
    return kernels;
  }

 private:
  static std::string refusal(const Convolution& c) {
    if (c.pad_before != c.pad_after) return "MIOpen pads both sides of an image alike";
    if (!fits(c.image) || !fits(c.weights) || !fits(c.result)) {
      return "MIOpen counts the elements along a side of a tensor in 32 bits";
    }
    return "";
  }

  static Kernel make(const gpu::Operation& op, const Convolution& c,
                     const std::shared_ptr<const Problem>& problem, const Solution& solution) {
    Kernel kernel;
    kernel.workspace_bytes = solution.workspace_size;
    kernel.implementation =
        format("miopen solution %llu", static_cast<unsigned long long>(solution.solution_id));
    kernel.work = {gpu::convolution_work(op, c, kernel.implementation)};
    gpu::Pass rest = gpu::post_pass(op, 0);
    if (rest) kernel.work.push_back(gpu::post_pass_work(op, 0));
    if (c.direction == Direction::kBackwardWeights && op.output_count() > 1) {
      uint64_t bytes = 0;
      rest = gpu::bias_gradient_pass(op, &bytes);
      for (gpu::Work& work : gpu::bias_gradient_work(op, bytes))
        kernel.work.push_back(std::move(work));
      kernel.workspace_bytes = std::max(kernel.workspace_bytes, bytes);
    }
    kernel.run = [problem, solution, rest](const Launch& l) {
      problem->run(solution, l);
      if (rest) rest(l);
    };
    return kernel;
  }

  std::shared_ptr<Session> session_ = std::make_shared<Session>();
};

}  // namespace

std::unique_ptr<gpu::Vendor> open_miopen() { return std::make_unique<Miopen>(); }

}  // namespace backends::rocm
