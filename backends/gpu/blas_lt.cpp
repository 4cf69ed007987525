// Sources: "cuBLAS", chapter "Using the cuBLASLt API", NVIDIA; "hipBLASLt API reference", AMD.
#include "backends/gpu/blas_lt.h"

#include <algorithm>
#include <mutex>
#include <type_traits>

#include "backends/gpu/blas_lt_names.h"
#include "backends/gpu/gemm.h"
#include "backends/gpu/library.h"
#include "backends/gpu/passes.h"
#include "backends/gpu/row_layout.h"
#include "backends/gpu/work.h"
#include "rt/sdk/post_ops.h"

#if !defined(BACKENDS_GPU_BLAS_LT)
#error "BACKENDS_GPU_BLAS_LT is the file name of the library"
#endif

namespace backends::gpu {
namespace {

using rt::sdk::Error;
using rt::sdk::format;
using Status = BLAS(Status_t);
using Algorithm = LT(MatmulHeuristicResult_t);

#define SPELL_AGAIN(name) #name
#define SPELL(name) SPELL_AGAIN(name)

// The functions of the library that are used, looked up at run time.
struct Functions {
  explicit Functions(const Library& library) {
    library.find(SPELL(LT(Create)), create);
    library.find(SPELL(LT(Destroy)), destroy);
    library.find(SPELL(LT(Matmul)), matmul);
    library.find(SPELL(LT(MatmulAlgoGetHeuristic)), heuristic);
    library.find(SPELL(LT(MatmulDescCreate)), create_description);
    library.find(SPELL(LT(MatmulDescDestroy)), destroy_description);
    library.find(SPELL(LT(MatmulDescSetAttribute)), set_description);
    library.find(SPELL(LT(MatrixLayoutCreate)), create_layout);
    library.find(SPELL(LT(MatrixLayoutDestroy)), destroy_layout);
    library.find(SPELL(LT(MatrixLayoutSetAttribute)), set_layout);
    library.find(SPELL(LT(MatmulPreferenceCreate)), create_preference);
    library.find(SPELL(LT(MatmulPreferenceDestroy)), destroy_preference);
    library.find(SPELL(LT(MatmulPreferenceSetAttribute)), set_preference);
#if defined(BACKENDS_GPU_CUDA)
    library.find("cublasLtGetStatusString", status_string);
#endif
  }
  std::string words(Status status) const {
#if defined(BACKENDS_GPU_CUDA)
    return status_string(status);
#else
    return format("hipblasStatus_t %d", static_cast<int>(status));
#endif
  }
  void check(Status status, const char* what) const {
    if (status == BLAS_CONSTANT(STATUS_SUCCESS)) return;
    Error error(RT_ERROR_DEVICE, format("matmul: %s failed: %s", what, words(status).c_str()),
                RT_SCOPE_DEVICE);
    throw error.native(kBlasName, status);
  }

  decltype(&LT(Create)) create;
  decltype(&LT(Destroy)) destroy;
  decltype(&LT(Matmul)) matmul;
  decltype(&LT(MatmulAlgoGetHeuristic)) heuristic;
  decltype(&LT(MatmulDescCreate)) create_description;
  decltype(&LT(MatmulDescDestroy)) destroy_description;
  decltype(&LT(MatmulDescSetAttribute)) set_description;
  decltype(&LT(MatrixLayoutCreate)) create_layout;
  decltype(&LT(MatrixLayoutDestroy)) destroy_layout;
  decltype(&LT(MatrixLayoutSetAttribute)) set_layout;
  decltype(&LT(MatmulPreferenceCreate)) create_preference;
  decltype(&LT(MatmulPreferenceDestroy)) destroy_preference;
  decltype(&LT(MatmulPreferenceSetAttribute)) set_preference;
#if defined(BACKENDS_GPU_CUDA)
  decltype(&cublasLtGetStatusString) status_string;
#endif
};

// The library and its handle. Any thread may use both.
struct Blas {
  explicit Blas(bool tf32_allowed) : library(BACKENDS_GPU_BLAS_LT), call(library) {
    tf32 = tf32_allowed;
    const Status status = call.create(&handle);
    if (status == BLAS_CONSTANT(STATUS_SUCCESS)) return;
    throw Error(RT_ERROR_UNAVAILABLE,
                format("%s: %s", SPELL(LT(Create)), call.words(status).c_str()));
  }
  ~Blas() { call.destroy(handle); }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  bool uses_tf32(const Gemm& gemm) const { return tf32 && gemm.dtype == RT_FLOAT32; }

  Library library;
  Functions call;
  bool tf32;
  LT(Handle_t) handle = nullptr;
};

BlasNumber type_of(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT64:
      return BLAS_NUMBER(R_64F);
    case RT_FLOAT16:
      return BLAS_NUMBER(R_16F);
    case RT_BFLOAT16:
      return BLAS_NUMBER(R_16BF);
    default:
      return BLAS_NUMBER(R_32F);
  }
}

// What the library does to the product before it stores it, and a name for it.
struct Epilogue {
  uint32_t id;
  const char* name;
};

Epilogue epilogue_of(const Gemm& gemm) {
  const bool bias = gemm.bias >= 0;
  if (gemm.row_sums >= 0) return {LT_CONSTANT(EPILOGUE_BGRADB), " bgradb"};
  if (gemm.gelu_gradient >= 0) return {LT_CONSTANT(EPILOGUE_DGELU), " dgelu"};
  if (gemm.stored >= 0) {
    return bias ? Epilogue{LT_CONSTANT(EPILOGUE_GELU_AUX_BIAS), " gelu_aux_bias"}
                : Epilogue{LT_CONSTANT(EPILOGUE_GELU_AUX), " gelu_aux"};
  }
  if (gemm.gelu) {
    return bias ? Epilogue{LT_CONSTANT(EPILOGUE_GELU_BIAS), " gelu_bias"}
                : Epilogue{LT_CONSTANT(EPILOGUE_GELU), " gelu"};
  }
  return bias ? Epilogue{LT_CONSTANT(EPILOGUE_BIAS), " bias"}
              : Epilogue{LT_CONSTANT(EPILOGUE_DEFAULT), ""};
}

// Whether the epilogue reads or writes a vector (a bias or its gradient), or a matrix beside d (the
// operand of a gelu).
bool has_vector(const Gemm& gemm) { return gemm.bias >= 0 || gemm.row_sums >= 0; }
bool has_matrix(const Gemm& gemm) { return gemm.gelu_gradient >= 0 || gemm.stored >= 0; }

// Owns one of the library's descriptors, which the library allocates, and frees it with the
// library's function.
template <typename Pointer>
using Owned = std::unique_ptr<std::remove_pointer_t<Pointer>, Status (*)(Pointer)>;

// The library's description of a product. Each launch stores the addresses of the epilogue's
// operands in it, so only one thread at a time launches.
class Product {
 public:
  Product(std::shared_ptr<const Blas> blas, const Gemm& gemm)
      : blas_(std::move(blas)),
        gemm_(gemm),
        description_(describe()),
        left_(lay(gemm.left, gemm.dtype)),
        right_(lay(gemm.right, gemm.dtype)),
        d_(lay(gemm.d, gemm.result)) {}

  // The library's preferred algorithms first. Empty, with the reason in `without`, if the library
  // does not do this product.
  std::vector<Algorithm> algorithms(size_t most, std::string* without) const {
    const auto preference = prefer();
    std::vector<Algorithm> results(most);
    int count = 0;
    const Status status = call().heuristic(blas_->handle, description_.get(), left_.get(),
                                           right_.get(), d_.get(), d_.get(), preference.get(),
                                           static_cast<int>(most), results.data(), &count);
    const bool known = status == BLAS_CONSTANT(STATUS_SUCCESS);
    results.resize(known ? static_cast<size_t>(count) : 0);
    std::erase_if(results, [](const Algorithm& a) {
      return a.state != BLAS_CONSTANT(STATUS_SUCCESS) || a.workspaceSize > kMostBlasWorkspace;
    });
    if (results.empty()) {
      *without = format("%s has no algorithm: %s", kBlasLtName, call().words(status).c_str());
    }
    return results;
  }

  void run(const Algorithm& chosen, const Launch& l) {
    const bool wide = gemm_.dtype == RT_FLOAT64, residual = gemm_.residual >= 0;
    const bool adds = residual || gemm_.adds;
    const double one64 = 1, beta64 = adds;
    const float one = 1, beta = adds;
    const void* left = from(l.inputs[1], gemm_.dtype, gemm_.left_begin);
    const void* right = from(l.inputs[0], gemm_.dtype, gemm_.right_begin);
    void* d = const_cast<void*>(from(l.outputs[0], gemm_.result, gemm_.d_begin));
    const void* c = residual ? l.inputs[gemm_.residual] : d;
    const std::lock_guard lock(mutex_);
    set_operands(description_.get(), l);
    call().check(
        call().matmul(blas_->handle, description_.get(),
                      wide ? static_cast<const void*>(&one64) : &one, left, left_.get(), right,
                      right_.get(), wide ? static_cast<const void*>(&beta64) : &beta, c, d_.get(),
                      d, d_.get(), &chosen.algo, l.workspace, chosen.workspaceSize, l.stream),
        SPELL(LT(Matmul)));
  }

 private:
  using Description = Owned<LT(MatmulDesc_t)>;
  using Layout = Owned<LT(MatrixLayout_t)>;
  using Preference = Owned<LT(MatmulPreference_t)>;

  const Functions& call() const { return blas_->call; }

  static const void* from(const void* memory, rt_dtype dtype, int64_t elements) {
    return static_cast<const char*>(memory) +
           elements * static_cast<int64_t>(rt::sdk::dtype_bytes(dtype));
  }

  template <typename T>
  void set(LT(MatmulDesc_t) d, LT(MatmulDescAttributes_t) key, const T& value) const {
    call().check(call().set_description(d, key, &value, sizeof(value)),
                 "an attribute of the product");
  }
  // The addresses that the epilogue reads or writes.
  void set_operands(LT(MatmulDesc_t) d, const Launch& l) const {
    if (gemm_.bias >= 0) set_vector(d, l.inputs[gemm_.bias]);
    if (gemm_.row_sums >= 0) set_vector(d, l.outputs[gemm_.row_sums]);
    if (gemm_.gelu_gradient >= 0) set_matrix(d, l.inputs[gemm_.gelu_gradient]);
    if (gemm_.stored >= 0) set_matrix(d, l.outputs[gemm_.stored]);
  }
  void set_vector(LT(MatmulDesc_t) d, const void* vector) const {
    set(d, LT_CONSTANT(MATMUL_DESC_BIAS_POINTER), vector);
  }
  void set_matrix(LT(MatmulDesc_t) d, const void* matrix) const {
    set(d, LT_CONSTANT(MATMUL_DESC_EPILOGUE_AUX_POINTER), matrix);
  }

  Description describe() const {
    const bool wide = gemm_.dtype == RT_FLOAT64;
    const auto compute = wide                      ? BLAS_CONSTANT(COMPUTE_64F)
                         : blas_->uses_tf32(gemm_) ? BLAS_CONSTANT(COMPUTE_32F_FAST_TF32)
                                                   : BLAS_CONSTANT(COMPUTE_32F);
    LT(MatmulDesc_t) d = nullptr;
    call().check(
        call().create_description(&d, compute, wide ? BLAS_NUMBER(R_64F) : BLAS_NUMBER(R_32F)),
        "a product");
    Description owned(d, call().destroy_description);
    const auto transpose = [](bool yes) -> int32_t {
      return yes ? BLAS_CONSTANT(OP_T) : BLAS_CONSTANT(OP_N);
    };
    set(d, LT_CONSTANT(MATMUL_DESC_TRANSA), transpose(gemm_.transpose_left));
    set(d, LT_CONSTANT(MATMUL_DESC_TRANSB), transpose(gemm_.transpose_right));
    set(d, LT_CONSTANT(MATMUL_DESC_EPILOGUE), epilogue_of(gemm_).id);
    // The choice of an algorithm depends on the alignment of these operands, not on their
    // addresses. NOLINTNEXTLINE(performance-no-int-to-ptr): an address that nobody reads
    const auto* const aligned = reinterpret_cast<const void*>(kAlignment);
    if (has_vector(gemm_)) {
      set(d, LT_CONSTANT(MATMUL_DESC_BIAS_DATA_TYPE), static_cast<int32_t>(type_of(gemm_.result)));
      set_vector(d, aligned);
    }
    if (has_matrix(gemm_)) {  // its type is that of d if nothing else is said
      set(d, LT_CONSTANT(MATMUL_DESC_EPILOGUE_AUX_LD), gemm_.aux.ld);
      set(d, LT_CONSTANT(MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE), gemm_.aux.batch_stride);
      set_matrix(d, aligned);
    }
    return owned;
  }

  Layout lay(const ColumnMajor& m, rt_dtype type) const {
    LT(MatrixLayout_t) layout = nullptr;
    call().check(call().create_layout(&layout, type_of(type), static_cast<uint64_t>(m.rows),
                                      static_cast<uint64_t>(m.columns), m.ld),
                 "a matrix");
    Layout owned(layout, call().destroy_layout);
    const auto set = [&](LT(MatrixLayoutAttribute_t) key, const auto& value) {
      call().check(call().set_layout(layout, key, &value, sizeof(value)),
                   "an attribute of a matrix");
    };
    set(LT_CONSTANT(MATRIX_LAYOUT_BATCH_COUNT), gemm_.batch);
    set(LT_CONSTANT(MATRIX_LAYOUT_STRIDED_BATCH_OFFSET), m.batch_stride);
    return owned;
  }

  Preference prefer() const {
    LT(MatmulPreference_t) preference = nullptr;
    call().check(call().create_preference(&preference), "a preference");
    Preference owned(preference, call().destroy_preference);
    const auto set = [&](LT(MatmulPreferenceAttributes_t) key, const auto& value) {
      call().check(call().set_preference(preference, key, &value, sizeof(value)), "a preference");
    };
    set(LT_CONSTANT(MATMUL_PREF_MAX_WORKSPACE_BYTES), kMostBlasWorkspace);
#if defined(BACKENDS_GPU_CUDA)
    // A sum that is split over k is added up in the compute type and in a fixed order.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    // A part of a product may begin at any multiple of 16 bytes in its matrices.
    const auto align = [&](LT(MatmulPreferenceAttributes_t) key, int64_t begin) {
      if (begin > 0) set(key, static_cast<uint32_t>(kRowAlignment));
    };
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, gemm_.left_begin);
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, gemm_.right_begin);
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, gemm_.d_begin);
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, gemm_.d_begin);
#endif
    return owned;
  }

  std::shared_ptr<const Blas> blas_;  // plans have no pointer to the device, so they share the
                                      // library, to keep it open
  Gemm gemm_;
  std::mutex mutex_;  // held from setting the bias to the end of the launch
  Description description_;
  Layout left_, right_, d_;
};

// Bytes of the operands and outputs of the post-operations from `first` on, but before `end`.
double post_bytes(const Operation& op, uint32_t first, uint32_t end) {
  double bytes = 0;
  for (uint32_t i = first; i < end; ++i) {
    const rt_post_op& post = op.post_op(i);
    if (post.operand >= 0) bytes += bytes_of(op.input(static_cast<uint32_t>(post.operand)));
    if (post.kind == RT_POST_STORE) bytes += bytes_of(op.output(op.output_count() - 1));
  }
  return bytes;
}

double flops_of(const Gemm& gemm) {
  return 2.0 * static_cast<double>(gemm.m) * static_cast<double>(gemm.n) *
         static_cast<double>(gemm.k) * gemm.batch;
}

// The library's kernel; how often it runs one to add up a sum that it split is not known. A shared
// matrix of a batch is read once.
Work work_of(const Operation& op, const Gemm& gemm) {
  const auto bytes = [&](const ColumnMajor& x, rt_dtype dtype) {
    const double matrices = x.batch_stride == 0 ? 1 : gemm.batch;
    return matrices * static_cast<double>(x.rows) * static_cast<double>(x.columns) *
           static_cast<double>(rt::sdk::dtype_bytes(dtype));
  };
  Work work{std::string(kBlasLtName) + epilogue_of(gemm).name};
  work.bytes = bytes(gemm.left, gemm.dtype) + bytes(gemm.right, gemm.dtype) +
               bytes(gemm.d, gemm.result) * (gemm.adds ? 2 : 1) + post_bytes(op, 0, gemm.fused);
  if (gemm.row_sums >= 0) work.bytes += bytes_of(op.output(1));
  work.flops = flops_of(gemm);
  return work;
}

class BlasLt : public Vendor {
 public:
  explicit BlasLt(bool tf32) : blas_(std::make_shared<const Blas>(tf32)) {}

  std::vector<Kernel> kernels(const Operation& op, size_t most, std::string* without) override {
    std::vector<Kernel> kernels;
    if (!op.is(RT_OP_MATMUL)) return kernels;
    const bool stores = rt::sdk::stored_outputs(op) > 0;
    const uint32_t in_front = rt::sdk::fusible_post_ops(op);
    // The available epilogues depend on types and device, so the library is asked with fewer
    // post-operations until it agrees, and without the sums of rows, which a pass can compute too.
    for (uint32_t fused = op.post_op_count();; --fused) {
      auto gemm = gemm_of(op, fused);
      if (!gemm || (stores && gemm->fused <= in_front)) return kernels;
      kernels = kernels_of(op, *gemm, most, without);
      if (kernels.empty() && gemm->row_sums >= 0) {
        gemm->row_sums = -1;
        kernels = kernels_of(op, *gemm, most, without);
      }
      fused = gemm->fused;
      if (!kernels.empty()) without->clear();
      if (!kernels.empty() || fused == 0) return kernels;
    }
  }

 private:
  // A product of the library and how it is launched.
  struct Call {
    std::shared_ptr<Product> product;
    Algorithm algorithm;
  };

  std::vector<Kernel> kernels_of(const Operation& op, const Gemm& gemm, size_t most,
                                 std::string* without) const {
    std::vector<Kernel> kernels;
    // The pass for sums of rows reads rows that follow each other without gaps.
    if (sums_by_pass(op, gemm) && op.input(0).layout != RT_LAYOUT_CANONICAL) return kernels;
    const std::vector<Gemm> counted = counted_parts(gemm);
    if (counted.empty()) {
      *without = format(
          "%s is asked for products of at most %lld elements each, into which this "
          "one cannot be divided",
          kBlasLtName, static_cast<long long>(kMostCounted));
      return kernels;
    }
    const std::vector<Gemm> aligned = aligned_of(op, counted);
    if (aligned.size() > counted.size())
      kernels = kernels_of_parts(op, gemm, aligned, (most + 1) / 2, without);
    for (Kernel& kernel : kernels_of_parts(op, gemm, counted, most, without)) {
      if (kernels.size() < most) kernels.push_back(std::move(kernel));
    }
    return kernels;
  }

  // The parts, each of them divided again where the library is faster then. That is not tried in
  // front of a pass.
  static std::vector<Gemm> aligned_of(const Operation& op, const std::vector<Gemm>& parts) {
    const bool has_passes = op.post_op_count() > 0 || op.output_count() > 1;
    if (!kSizesMatter || has_passes) return parts;
    std::vector<Gemm> all;
    for (const Gemm& part : parts) {
      const std::vector<Gemm> aligned = aligned_parts(part);
      if (aligned.empty()) all.push_back(part);
      all.insert(all.end(), aligned.begin(), aligned.end());
    }
    return all;
  }

  // Kernels that launch the library's product once for each part, one for each algorithm of the
  // first part. Parts that have fewer, or are much smaller, take the preferred one.
  std::vector<Kernel> kernels_of_parts(const Operation& op, const Gemm& gemm,
                                       const std::vector<Gemm>& parts, size_t most,
                                       std::string* without) const {
    std::vector<std::vector<Call>> ways;
    for (const Gemm& part : parts) {
      const auto product = std::make_shared<Product>(blas_, part);
      const bool small = flops_of(part) < flops_of(parts[0]) / 2;
      const std::vector<Algorithm> algorithms = product->algorithms(small ? 1 : most, without);
      if (algorithms.empty()) return {};
      if (ways.empty()) ways.resize(algorithms.size());
      for (size_t i = 0; i < ways.size(); ++i)
        ways[i].push_back({product, algorithms[i < algorithms.size() ? i : 0]});
    }
    std::vector<Work> work;
    for (const Gemm& part : parts) work.push_back(work_of(op, part));
    std::vector<Kernel> kernels;
    for (const std::vector<Call>& calls : ways) kernels.push_back(make(op, gemm, calls, work));
    return kernels;
  }

  // The calls, of which `work` tells, one after another, and the passes that they leave. `gemm` is
  // the whole product.
  Kernel make(const Operation& op, const Gemm& gemm, const std::vector<Call>& calls,
              const std::vector<Work>& work) const {
    const bool tf32 = blas_->uses_tf32(gemm);
    Kernel kernel;
    kernel.implementation = std::string(kBlasLtName) + (tf32 ? " tf32" : "");
    if (calls.size() > 1) kernel.implementation += format(", %zu parts", calls.size());
    if (tf32) kernel.tolerance = kToleranceTf32;
    kernel.work = work;
    const Pass sums = add_row_sums(op, gemm, kernel), rest = post_pass(op, gemm.fused);
    for (const Call& call : calls)
      kernel.workspace_bytes =
          std::max<uint64_t>(kernel.workspace_bytes, call.algorithm.workspaceSize);
    if (rest) {
      kernel.work.push_back(
          {"post-operations",
           2 * bytes_of(op.output(0)) + post_bytes(op, gemm.fused, op.post_op_count())});
    }
    kernel.run = [calls, sums, rest](const Launch& l) {
      for (const Call& call : calls) call.product->run(call.algorithm, l);
      if (sums) sums(l);
      if (rest) rest(l);
    };
    return kernel;
  }

  static bool sums_by_pass(const Operation& op, const Gemm& gemm) {
    return rt::sdk::own_output_count(op) > 1 && gemm.row_sums < 0;
  }

  // The pass for the sums of rows that the library does not compute, which adds its workspace and
  // its work to `kernel`; null if there are none.
  static Pass add_row_sums(const Operation& op, const Gemm& gemm, Kernel& kernel) {
    if (!sums_by_pass(op, gemm)) return nullptr;
    Pass pass = row_sum_pass(op, &kernel.workspace_bytes);
    column_work(kernel.work, bytes_of(op.input(0)), bytes_of(op.output(1)), kernel.workspace_bytes);
    return pass;
  }

  std::shared_ptr<const Blas> blas_;
};

}  // namespace

std::unique_ptr<Vendor> open_blas_lt(bool tf32) { return std::make_unique<BlasLt>(tf32); }

}  // namespace backends::gpu
