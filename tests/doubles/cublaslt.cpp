// cuBLASLt's matmul, by its documentation, on host memory: column-major, sums in double. It refuses
// what the documentation forbids, and, as some versions and devices do, every epilogue in float64.
#include <cublasLt.h>

#include <cmath>
#include <cstring>

#include "rt/sdk/float16.h"

namespace {

struct Description {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t transpose_a, transpose_b;
  uint32_t epilogue;
  const void* bias;
};
struct Layout {
  cudaDataType_t type;
  int32_t batch;
  uint64_t rows, columns;
  int64_t ld, stride;
};
struct Preference {
  uint64_t workspace;
  uint32_t reductions;
};

template <typename T, typename Opaque>
T& inside(Opaque* opaque) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  return *static_cast<T*>(static_cast<void*>(opaque));
}
template <typename T>
cublasStatus_t store(T& field, const void* value, size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

double load(const void* data, cudaDataType_t type, int64_t i) {
  switch (type) {
    case CUDA_R_64F:
      return static_cast<const double*>(data)[i];
    case CUDA_R_16F:
      return static_cast<double>(rt::sdk::from_float16(static_cast<const uint16_t*>(data)[i]));
    case CUDA_R_16BF:
      return static_cast<double>(rt::sdk::from_bfloat16(static_cast<const uint16_t*>(data)[i]));
    default:
      return static_cast<double>(static_cast<const float*>(data)[i]);
  }
}
void save(void* data, cudaDataType_t type, int64_t i, double value) {
  if (type == CUDA_R_64F) {
    static_cast<double*>(data)[i] = value;
  } else if (type == CUDA_R_32F) {
    static_cast<float*>(data)[i] = static_cast<float>(value);
  } else {
    const auto narrow = type == CUDA_R_16F ? rt::sdk::to_float16 : rt::sdk::to_bfloat16;
    static_cast<uint16_t*>(data)[i] = narrow(static_cast<float>(value));
  }
}

double activate(uint32_t epilogue, double x) {
  if ((epilogue & CUBLASLT_EPILOGUE_RELU) != 0) return x > 0 ? x : 0;
  if ((epilogue & CUBLASLT_EPILOGUE_GELU) == 0) return x;
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

// op(a) is m x k, op(b) k x n, c and d m x n.
struct Shape {
  Shape(const Description& p, const Layout& a, const Layout& b)
      : m(p.transpose_a != 0 ? a.columns : a.rows),
        n(p.transpose_b != 0 ? b.rows : b.columns),
        k(p.transpose_a != 0 ? a.rows : a.columns) {}
  uint64_t m, n, k;
};

bool is_lawful(const Description& p, const Layout& a, const Layout& b, const Layout& c,
               const Layout& d) {
  const Shape s(p, a, b);
  for (const Layout* x : {&a, &b, &c, &d}) {
    if (x->ld < static_cast<int64_t>(x->rows) || x->type != a.type || x->batch != d.batch)
      return false;
  }
  const bool wide = a.type == CUDA_R_64F;
  const bool tf32 = p.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type == CUDA_R_32F;
  return (p.transpose_b != 0 ? b.columns : b.rows) == s.k && c.rows == s.m && c.columns == s.n &&
         d.rows == s.m && d.columns == s.n && p.scale == (wide ? CUDA_R_64F : CUDA_R_32F) &&
         (tf32 || p.compute == (wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F));
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t) { return "an error of the test double"; }

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t p, size_t,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  inside<Description>(p) = {compute, scale, 0, 0, CUBLASLT_EPILOGUE_DEFAULT, nullptr};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t key, const void* value,
                                              size_t bytes) {
  auto& p = inside<Description>(desc);
  switch (key) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return store(p.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return store(p.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return store(p.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return store(p.bias, value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t,
                                                 cudaDataType_t type, uint64_t rows, uint64_t cols,
                                                 int64_t ld) {
  inside<Layout>(layout) = {type, 1, rows, cols, ld, 0};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t key,
                                                const void* value, size_t bytes) {
  auto& x = inside<Layout>(layout);
  if (key == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return store(x.batch, value, bytes);
  if (key == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return store(x.stride, value, bytes);
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t p, size_t) {
  inside<Preference>(p) = {0, CUBLASLT_REDUCTION_SCHEME_MASK};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t key,
                                                    const void* value, size_t bytes) {
  auto& p = inside<Preference>(preference);
  if (key == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return store(p.workspace, value, bytes);
  if (key == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return store(p.reductions, value, bytes);
  return CUBLAS_STATUS_INVALID_VALUE;
}

// Two algorithms; the second wants 1 KiB.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  const auto& p = inside<Description>(desc);
  *count = 0;
  if (!is_lawful(p, inside<Layout>(a), inside<Layout>(b), inside<Layout>(c), inside<Layout>(d)))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (p.epilogue != CUBLASLT_EPILOGUE_DEFAULT && inside<Layout>(a).type == CUDA_R_64F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool bias = (p.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  if (bias != (p.bias != nullptr)) return CUBLAS_STATUS_INVALID_VALUE;
  for (int i = 0; i < wanted && i < 2; ++i) {
    if (inside<Preference>(preference).workspace < 1024u * static_cast<unsigned>(i)) break;
    results[i] = {};
    results[i].algo.data[0] = static_cast<uint64_t>(i) + 1;
    results[i].workspaceSize = 1024u * static_cast<unsigned>(i);
    results[i].state = CUBLAS_STATUS_SUCCESS;
    ++*count;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a_data, cublasLtMatrixLayout_t a_layout,
                              const void* b_data, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c_data, cublasLtMatrixLayout_t c_layout, void* d_data,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t) {
  const auto& p = inside<Description>(desc);
  const Layout &a = inside<Layout>(a_layout), &b = inside<Layout>(b_layout),
               &c = inside<Layout>(c_layout), &d = inside<Layout>(d_layout);
  if (!is_lawful(p, a, b, c, d)) return CUBLAS_STATUS_INVALID_VALUE;
  const uint64_t needed = 1024 * (algo->data[0] - 1);
  if (workspace_bytes < needed || (needed > 0 && workspace == nullptr))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (needed > 0) std::memset(workspace, 0xff, needed);
  const Shape s(p, a, b);
  const auto at = [](const Layout& x, bool t, int64_t batch, int64_t row, int64_t column) {
    return batch * x.stride + (t ? row * x.ld + column : column * x.ld + row);
  };
  for (int64_t batch = 0; batch < d.batch; ++batch) {
    for (int64_t i = 0; i < static_cast<int64_t>(s.m); ++i) {
      for (int64_t j = 0; j < static_cast<int64_t>(s.n); ++j) {
        double sum = 0;
        for (int64_t k = 0; k < static_cast<int64_t>(s.k); ++k) {
          sum += load(a_data, a.type, at(a, p.transpose_a != 0, batch, i, k)) *
                 load(b_data, b.type, at(b, p.transpose_b != 0, batch, k, j));
        }
        const double scale = load(beta, p.scale, 0);
        double y = load(alpha, p.scale, 0) * sum;
        if (scale != 0) y += scale * load(c_data, c.type, at(c, false, batch, i, j));
        if ((p.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) y += load(p.bias, d.type, i);
        save(d_data, d.type, at(d, false, batch, i, j), activate(p.epilogue, y));
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
