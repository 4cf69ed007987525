// matmul by cuBLASLt. Source: "cuBLAS", chapter "Using the cuBLASLt API", NVIDIA.
#include <cublasLt.h>

#include "backends/cuda/gemm.h"
#include "backends/cuda/library.h"
#include "backends/cuda/passes.h"
#include "backends/cuda/provider.h"

#if !defined(BACKENDS_CUDA_CUBLASLT)
#error "BACKENDS_CUDA_CUBLASLT is the file name of the library"
#endif

namespace backends::cuda {
namespace {

using gpu::Kernel;
using gpu::Launch;
using rt::sdk::Error;
using rt::sdk::format;

// The functions in use, found at run time.
struct Functions {
  explicit Functions(const Library& library) {
    library.find("cublasLtCreate", create);
    library.find("cublasLtDestroy", destroy);
    library.find("cublasLtGetStatusString", status_string);
    library.find("cublasLtMatmul", matmul);
    library.find("cublasLtMatmulAlgoGetHeuristic", heuristic);
    library.find("cublasLtMatmulDescInit_internal", init_description);
    library.find("cublasLtMatmulDescSetAttribute", set_description);
    library.find("cublasLtMatrixLayoutInit_internal", init_layout);
    library.find("cublasLtMatrixLayoutSetAttribute", set_layout);
    library.find("cublasLtMatmulPreferenceInit_internal", init_preference);
    library.find("cublasLtMatmulPreferenceSetAttribute", set_preference);
  }
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescInit_internal) init_description;
  decltype(&cublasLtMatmulDescSetAttribute) set_description;
  decltype(&cublasLtMatrixLayoutInit_internal) init_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatmulPreferenceInit_internal) init_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
};

cudaDataType_t type_of(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT64:
      return CUDA_R_64F;
    case RT_FLOAT16:
      return CUDA_R_16F;
    case RT_BFLOAT16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

cublasLtEpilogue_t epilogue_of(const Gemm& gemm) {
  const bool bias = gemm.bias >= 0;
  if (gemm.activation == RT_ACTIVATION_RELU) {
    return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  }
  if (gemm.activation == RT_ACTIVATION_GELU_TANH) {
    return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  }
  return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

// A library, its handle, and what it is told of a product. The handle may be used by any thread.
class Blas {
 public:
  explicit Blas(bool tf32) : library_(BACKENDS_CUDA_CUBLASLT), call_(library_), tf32_(tf32) {
    const cublasStatus_t status = call_.create(&handle_);
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw Error(RT_ERROR_UNAVAILABLE, format("cublasLtCreate: %s", call_.status_string(status)));
  }
  ~Blas() { call_.destroy(handle_); }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  bool uses_tf32(const Gemm& gemm) const { return tf32_ && gemm.dtype == RT_FLOAT32; }

  // The library's favourites first; empty if it does not do this.
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms(const Gemm& gemm, size_t most,
                                                          std::string* without) const {
    // Whether there is a bias and how it is aligned counts, its address does not.
    Product p = describe(gemm, reinterpret_cast<const void*>(gpu::kAlignment));
    cublasLtMatmulPreferenceOpaque_t preference;
    check(call_.init_preference(&preference, sizeof(preference)), "preference");
    prefer(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
    // A split sum is added up in its own type and in a fixed order.
    prefer(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    std::vector<cublasLtMatmulHeuristicResult_t> results(most);
    int count = 0;
    const cublasStatus_t status =
        call_.heuristic(handle_, &p.description, &p.left, &p.right, &p.d, &p.d, &preference,
                        static_cast<int>(most), results.data(), &count);
    results.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(count) : 0);
    if (results.empty()) {
      *without = format("cuBLASLt has no algorithm: %s", call_.status_string(status));
    }
    std::erase_if(results, [](const auto& r) { return r.state != CUBLAS_STATUS_SUCCESS; });
    return results;
  }

  void run(const Gemm& gemm, const cublasLtMatmulHeuristicResult_t& chosen, const Launch& l) const {
    const auto input = [&](int32_t i) { return i < 0 ? nullptr : l.inputs[i]; };
    Product p = describe(gemm, input(gemm.bias));
    const bool wide = gemm.dtype == RT_FLOAT64;
    const double one64 = 1, beta64 = gemm.residual >= 0;
    const float one = 1, beta = gemm.residual >= 0;
    const void* c = gemm.residual >= 0 ? input(gemm.residual) : l.outputs[0];
    check(call_.matmul(handle_, &p.description, wide ? static_cast<const void*>(&one64) : &one,
                       l.inputs[1], &p.left, l.inputs[0], &p.right,
                       wide ? static_cast<const void*>(&beta64) : &beta, c, &p.d, l.outputs[0],
                       &p.d, &chosen.algo, l.workspace, chosen.workspaceSize, l.stream),
          "cublasLtMatmul");
  }

 private:
  // Small structs that the library lets its callers own: made for each launch, they allocate
  // nothing and no launch sees another's bias.
  struct Product {
    cublasLtMatmulDescOpaque_t description;
    cublasLtMatrixLayoutOpaque_t left, right, d;
  };

  void check(cublasStatus_t status, const char* what) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    Error error(RT_ERROR_DEVICE, format("matmul: %s failed: %s", what, call_.status_string(status)),
                RT_SCOPE_DEVICE);
    throw error.native("cuBLAS", status);
  }
  template <typename T>
  void prefer(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t key,
              const T& value) const {
    check(call_.set_preference(p, key, &value, sizeof(value)), "a preference");
  }
  template <typename T>
  void set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t key, const T& value) const {
    check(call_.set_description(d, key, &value, sizeof(value)), "an attribute of the product");
  }
  void lay(cublasLtMatrixLayoutOpaque_t& layout, const Gemm& gemm, const ColumnMajor& m) const {
    const auto set = [&](cublasLtMatrixLayoutAttribute_t key, const auto& value) {
      check(call_.set_layout(&layout, key, &value, sizeof(value)), "an attribute of a matrix");
    };
    check(call_.init_layout(&layout, sizeof(layout), type_of(gemm.dtype),
                            static_cast<uint64_t>(m.rows), static_cast<uint64_t>(m.columns), m.ld),
          "a matrix");
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, gemm.batch);
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, m.batch_stride);
  }

  Product describe(const Gemm& gemm, const void* bias) const {
    Product p;
    const bool wide = gemm.dtype == RT_FLOAT64;
    const cublasComputeType_t compute = wide              ? CUBLAS_COMPUTE_64F
                                        : uses_tf32(gemm) ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                          : CUBLAS_COMPUTE_32F;
    check(call_.init_description(&p.description, sizeof(p.description), compute,
                                 wide ? CUDA_R_64F : CUDA_R_32F),
          "a product");
    const auto transpose = [](bool yes) -> int32_t { return yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
    set(&p.description, CUBLASLT_MATMUL_DESC_TRANSA, transpose(gemm.transpose_left));
    set(&p.description, CUBLASLT_MATMUL_DESC_TRANSB, transpose(gemm.transpose_right));
    set(&p.description, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue_of(gemm)));
    if (gemm.bias >= 0) set(&p.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    lay(p.left, gemm, gemm.left);
    lay(p.right, gemm, gemm.right);
    lay(p.d, gemm, gemm.d);
    return p;
  }

  Library library_;
  Functions call_;
  bool tf32_;
  cublasLtHandle_t handle_ = nullptr;
};

class CublasLt : public gpu::Vendor {
 public:
  explicit CublasLt(bool tf32) : blas_(std::make_shared<const Blas>(tf32)) {}

  std::vector<Kernel> kernels(const Operation& op, size_t most, std::string* without) override {
    std::vector<Kernel> kernels;
    if (!op.is(RT_OP_MATMUL)) return kernels;
    // Which epilogues there are depends on types and device: with fewer until the library agrees.
    for (uint32_t fused = op.post_op_count();; --fused) {
      const auto gemm = gemm_of(op, fused);
      if (!gemm) return kernels;
      for (const auto& algorithm : blas_->algorithms(*gemm, most, without)) {
        kernels.push_back(make(op, *gemm, algorithm));
      }
      fused = gemm->fused;
      if (!kernels.empty()) without->clear();
      if (!kernels.empty() || fused == 0) return kernels;
    }
  }

 private:
  Kernel make(const Operation& op, const Gemm& gemm,
              const cublasLtMatmulHeuristicResult_t& algorithm) const {
    Kernel kernel;
    kernel.workspace_bytes = algorithm.workspaceSize;
    kernel.implementation = blas_->uses_tf32(gemm) ? "cublaslt tf32" : "cublaslt";
    if (blas_->uses_tf32(gemm)) kernel.tolerance = kToleranceTf32;
    kernel.run = [blas = blas_, gemm, algorithm,
                  rest = post_pass(op, gemm.fused)](const Launch& l) {
      blas->run(gemm, algorithm, l);
      if (rest) rest(l);
    };
    return kernel;
  }

  std::shared_ptr<const Blas> blas_;  // plans may not outlive the device, but need not know it
};

}  // namespace

std::unique_ptr<gpu::Vendor> open_cublaslt(bool tf32) { return std::make_unique<CublasLt>(tf32); }

}  // namespace backends::cuda
