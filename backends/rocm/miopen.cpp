// The convolutions by MIOpen's immediate mode, which compiles a solution when it is chosen and not
// when it runs. Before, the library's search ("Find") measures the solutions of a convolution once,
// and keeps their times in a database of the user from which immediate mode ranks them. Without the
// search, immediate mode ranks by what its database has, else by estimates. Source: "MIOpen",
// chapter "Using the find APIs and immediate mode", AMD.
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
    library.find("miopenCreateConvProblem", create_problem);
    library.find("miopenDestroyProblem", destroy_problem);
    library.find("miopenSetProblemTensorDescriptor", set_problem_tensor);
    library.find("miopenCreateFindOptions", create_find_options);
    library.find("miopenDestroyFindOptions", destroy_find_options);
    library.find("miopenSetFindOptionWorkspaceLimit", set_workspace_limit);
    library.find("miopenFindSolutions", find_solutions);
    library.find("miopenDestroySolution", destroy_solution);
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
  decltype(&miopenCreateConvProblem) create_problem;
  decltype(&miopenDestroyProblem) destroy_problem;
  decltype(&miopenSetProblemTensorDescriptor) set_problem_tensor;
  decltype(&miopenCreateFindOptions) create_find_options;
  decltype(&miopenDestroyFindOptions) destroy_find_options;
  decltype(&miopenSetFindOptionWorkspaceLimit) set_workspace_limit;
  decltype(&miopenFindSolutions) find_solutions;
  decltype(&miopenDestroySolution) destroy_solution;
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
  // Chooses the stream of the handle. The caller holds the mutex.
  void use(hipStream_t wanted) {
    if (stream == wanted) return;
    call.check(call.set_stream(handle, wanted), "choose the stream");
    stream = wanted;
  }
  // Lets go of the stream, which is about to be destroyed.
  void forget(hipStream_t ending) {
    const std::lock_guard lock(mutex);
    if (stream != ending) return;
    // After an error, which nobody can handle here, the next launch chooses its stream all the
    // same.
    static_cast<void>(call.set_stream(handle, nullptr));
    stream = nullptr;
  }

  gpu::Library library;
  Functions call;
  miopenHandle_t handle = nullptr;
  std::mutex mutex;              // guards the handle's stream and everything that uses the handle
  hipStream_t stream = nullptr;  // the handle's; nullptr: the default stream, as at first
};

miopenDataType_t type_of(rt_dtype dtype) {
  if (dtype == RT_FLOAT16) return miopenHalf;
  return dtype == RT_BFLOAT16 ? miopenBFloat16 : miopenFloat;
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
        direction_(search_direction(c.direction)),
        roles_(roles_of(c.direction)),
        first_(describe(tensors_[0], c.dtype)),
        second_(describe(tensors_[1], c.dtype)),
        made_(describe(tensors_[2], c.dtype)),
        window_(window(c)) {}

  // Has the library measure its solutions, unless its database has their times. That takes seconds
  // once, and memory of the device for the tensors while it lasts. An error is no reason to stop:
  // immediate mode does without.
  void search() const {
    const std::lock_guard lock(session_->mutex);
    session_->use(nullptr);
    miopenProblem_t problem = nullptr;
    if (call().create_problem(&problem, window_.get(), direction_) != miopenStatusSuccess) return;
    const Owned<miopenProblem_t> owned(problem, call().destroy_problem);
    const auto set = [&](size_t i, const Tensor& tensor) {
      return call().set_problem_tensor(problem, roles_[i], tensor.get()) == miopenStatusSuccess;
    };
    if (!set(0, first_) || !set(1, second_) || !set(2, made_)) return;
    miopenFindOptions_t options = nullptr;
    if (call().create_find_options(&options) != miopenStatusSuccess) return;
    const Owned<miopenFindOptions_t> owned_options(options, call().destroy_find_options);
    if (call().set_workspace_limit(options, kMostWorkspace) != miopenStatusSuccess) return;
    std::vector<miopenSolution_t> found(kMostSolutions);
    size_t count = 0;
    if (call().find_solutions(session_->handle, problem, options, found.data(), &count,
                              found.size()) != miopenStatusSuccess)
      return;
    for (size_t i = 0; i < count; ++i) static_cast<void>(call().destroy_solution(found[i]));
  }

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
    session_->use(l.stream);
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
  static std::array<miopenTensorArgumentId_t, 3> roles_of(Direction direction) {
    constexpr auto kImage = miopenTensorConvolutionX, kWeights = miopenTensorConvolutionW,
                   kResult = miopenTensorConvolutionY;
    if (direction == Direction::kForward) return {kWeights, kImage, kResult};
    if (direction == Direction::kBackwardData) return {kResult, kWeights, kImage};
    return {kResult, kImage, kWeights};
  }
  static miopenProblemDirection_t search_direction(Direction direction) {
    if (direction == Direction::kForward) return miopenProblemDirectionForward;
    return direction == Direction::kBackwardData ? miopenProblemDirectionBackward
                                                 : miopenProblemDirectionBackwardWeights;
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
  const miopenProblemDirection_t direction_;
  const std::array<miopenTensorArgumentId_t, 3> roles_;  // of `tensors_` in the search
  Tensor first_, second_, made_;
  Window window_;
};

class Miopen : public gpu::Vendor {
 public:
  explicit Miopen(bool search) : search_(search) {}

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
      // With RT_OP_DETERMINISTIC nothing is measured, so that every run makes the same choice.
      if (search_ && (op.desc().flags & RT_OP_DETERMINISTIC) == 0) problem->search();
      for (const Solution& s : problem->solutions(most))
        kernels.push_back(make(op, *c, problem, s));
      if (!kernels.empty()) without->clear();
    } catch (const Error& reason) {  // this version of the library does not support it
      *without = reason.what();
    }
    return kernels;
  }

  void forget(hipStream_t stream) override { session_->forget(stream); }

 private:
  static std::string refusal(const Convolution& c) {
    if (c.pad_before != c.pad_after) return "MIOpen pads both sides of an image alike";
    for (const auto& pair : {c.pad_before, c.stride, c.dilation}) {
      if (std::max(pair[0], pair[1]) <= std::numeric_limits<int>::max()) continue;
      return "MIOpen counts paddings, strides and dilations in 32 bits";
    }
    if (!gpu::is_counted(c)) {
      return format("MIOpen is asked for tensors of at most %lld elements",
                    static_cast<long long>(gpu::kMostCounted));
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

  const bool search_;
  std::shared_ptr<Session> session_ = std::make_shared<Session>();
};

}  // namespace

std::unique_ptr<gpu::Vendor> open_miopen(bool search) { return std::make_unique<Miopen>(search); }

}  // namespace backends::rocm
