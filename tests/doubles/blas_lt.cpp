// Simulates the matmul of cuBLASLt or hipBLASLt in host memory, as their documentation describes
// it: column-major, but with sums in float64. It refuses what the documentation forbids, and every
// epilogue in float64, as some versions and devices do.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "backends/gpu/blas_lt_names.h"
#include "rt/sdk/float16.h"
#if defined(BACKENDS_GPU_CUDA)
#include "tests/doubles/cudart.h"
#endif

namespace {

using backends::gpu::BlasNumber;
using Status = BLAS(Status_t);

struct Description {
  BLAS(ComputeType_t) compute;
  BlasNumber scale;
  int32_t transpose_a, transpose_b;
  uint32_t epilogue;
  int32_t bias_type;
  const void* bias;  // or the gradient of a bias, which is written
  const void* aux;   // the operand of a gelu, which is read or written
  int64_t aux_ld, aux_stride;

  bool has(uint32_t bits) const { return (epilogue & bits) == bits; }
  bool sums_right() const { return epilogue == LT_CONSTANT(EPILOGUE_BGRADB); }
  bool gradient() const { return epilogue == LT_CONSTANT(EPILOGUE_DGELU); }
  bool has_bias() const { return !sums_right() && !gradient() && has(LT_CONSTANT(EPILOGUE_BIAS)); }
  bool has_aux() const { return gradient() || has(LT_CONSTANT(EPILOGUE_GELU_AUX)); }
};
struct Layout {
  BlasNumber type;
  int32_t batch;
  uint64_t rows, columns;
  int64_t ld, stride;
};
struct Preference {
  uint64_t workspace;
};

// The workspace of the second of two algorithms, if any workspace is allowed.
constexpr uint64_t kScratch = std::min<uint64_t>(1024, backends::gpu::kMostBlasWorkspace);

template <typename T, typename Opaque>
T& inside(Opaque* opaque) {
  return *static_cast<T*>(static_cast<void*>(opaque));
}
template <typename T>
Status store(T& field, const void* value, size_t bytes) {
  if (bytes != sizeof(T)) return BLAS_CONSTANT(STATUS_INVALID_VALUE);
  std::memcpy(&field, value, bytes);
  return BLAS_CONSTANT(STATUS_SUCCESS);
}

template <typename T, typename Pointer>
Status create(Pointer* made, const T& value) {
  *made = reinterpret_cast<Pointer>(new T(value));
  return BLAS_CONSTANT(STATUS_SUCCESS);
}
template <typename T, typename Pointer>
Status destroy(Pointer made) {
  delete reinterpret_cast<T*>(made);
  return BLAS_CONSTANT(STATUS_SUCCESS);
}

double load(const void* data, BlasNumber type, int64_t i) {
  switch (type) {
    case BLAS_NUMBER(R_64F):
      return static_cast<const double*>(data)[i];
    case BLAS_NUMBER(R_16F):
      return static_cast<double>(rt::sdk::from_float16(static_cast<const uint16_t*>(data)[i]));
    case BLAS_NUMBER(R_16BF):
      return static_cast<double>(rt::sdk::from_bfloat16(static_cast<const uint16_t*>(data)[i]));
    default:
      return static_cast<double>(static_cast<const float*>(data)[i]);
  }
}
void save(void* data, BlasNumber type, int64_t i, double value) {
  if (type == BLAS_NUMBER(R_64F)) {
    static_cast<double*>(data)[i] = value;
  } else if (type == BLAS_NUMBER(R_32F)) {
    static_cast<float*>(data)[i] = static_cast<float>(value);
  } else {
    const auto narrow = type == BLAS_NUMBER(R_16F) ? rt::sdk::to_float16 : rt::sdk::to_bfloat16;
    static_cast<uint16_t*>(data)[i] = narrow(static_cast<float>(value));
  }
}

// The float32 operand that a tensor core uses: the lower 13 bits are dropped, which loses more than
// rounding.
double as_tf32(double x) {
  return static_cast<double>(
      std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(x)) & 0xffffe000u));
}

// x (1 + tanh(z)) / 2 and its derivative, in the form that keeps its digits where it is small.
double gelu_factor(double x) {
  return 1 / (1 + std::exp(-2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}
// The library's: by tanh in float32, so that the factor is 0 where it is less than 2^-24.
double rounded_gelu_factor(double x) {
  return 0.5 + 0.5 * static_cast<float>(2 * gelu_factor(x) - 1);
}
double gelu_derivative(double x) {
  const double p = gelu_factor(x);
  const double slope = 2 * std::sqrt(2 / std::acos(-1.0)) * (1 + 3 * 0.044715 * x * x);
  return p + (p > 0 && p < 1 ? x * p * (1 - p) * slope : 0);
}

double activate(const Description& p, double x) {
  if (p.gradient() || p.sums_right()) return x;
  if (p.has(LT_CONSTANT(EPILOGUE_RELU))) return x > 0 ? x : 0;  // of NaN, too
  return p.has(LT_CONSTANT(EPILOGUE_GELU)) ? x * rounded_gelu_factor(x) : x;
}

// op(a) is m x k, op(b) k x n, c and d m x n.
struct Shape {
  Shape(const Description& p, const Layout& a, const Layout& b)
      : m(p.transpose_a == BLAS_CONSTANT(OP_T) ? a.columns : a.rows),
        n(p.transpose_b == BLAS_CONSTANT(OP_T) ? b.rows : b.columns),
        k(p.transpose_a == BLAS_CONSTANT(OP_T) ? a.rows : a.columns) {}
  uint64_t m, n, k;
};

bool is_narrow(BlasNumber type) {
  return type == BLAS_NUMBER(R_16F) || type == BLAS_NUMBER(R_16BF);
}

// Whether the types of the matrices are those of one row of the table of types of cublasLtMatmul().
bool types_fit(const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  const bool same = d.type == a.type || (is_narrow(a.type) && d.type == BLAS_NUMBER(R_32F));
  return b.type == a.type && c.type == d.type && same;
}

// Whether the operands of the epilogue are what cublasLt.h asks for.
bool epilogue_fits(const Description& p, const Layout& d) {
  const bool vector = p.has_bias() || p.sums_right();
  if (vector && p.bias_type != static_cast<int32_t>(d.type)) return false;
  if (vector != (p.bias != nullptr) || p.has_aux() != (p.aux != nullptr)) return false;
  if (!p.has_aux()) return true;
  const auto address = reinterpret_cast<uintptr_t>(p.aux);
  return p.aux_ld % 8 == 0 && p.aux_ld >= static_cast<int64_t>(d.rows) && p.aux_stride % 8 == 0 &&
         address % 16 == 0;
}

// Whether 31 bits count the elements from the first one of a matrix to the last one of the batch.
bool is_counted(const Layout& x) {
  const int64_t reach = (x.batch - 1) * x.stride + (static_cast<int64_t>(x.columns) - 1) * x.ld +
                        static_cast<int64_t>(x.rows);
  return reach <= INT32_MAX;
}

bool is_lawful(const Description& p, const Layout& a, const Layout& b, const Layout& c,
               const Layout& d) {
  const Shape s(p, a, b);
  for (const Layout* x : {&a, &b, &c, &d}) {
    if (x->ld < static_cast<int64_t>(x->rows) || x->batch != d.batch || !is_counted(*x))
      return false;
  }
  if (!types_fit(a, b, c, d) || !epilogue_fits(p, d)) return false;
  const bool wide = a.type == BLAS_NUMBER(R_64F);
  const bool tf32 =
      p.compute == BLAS_CONSTANT(COMPUTE_32F_FAST_TF32) && a.type == BLAS_NUMBER(R_32F);
  return (p.transpose_b == BLAS_CONSTANT(OP_T) ? b.columns : b.rows) == s.k && c.rows == s.m &&
         c.columns == s.n && d.rows == s.m && d.columns == s.n &&
         p.scale == (wide ? BLAS_NUMBER(R_64F) : BLAS_NUMBER(R_32F)) &&
         (tf32 || p.compute == (wide ? BLAS_CONSTANT(COMPUTE_64F) : BLAS_CONSTANT(COMPUTE_32F)));
}

// Element (row, column) of matrix `batch` of `x`, or of its transpose.
int64_t place(const Layout& x, bool transposed, int64_t batch, int64_t row, int64_t column) {
  return batch * x.stride + (transposed ? row * x.ld + column : column * x.ld + row);
}

// The gradient of the bias: the sums of op(b) over k, for each column of d.
void sum_right(const Description& p, const Shape& s, const void* b_data, const Layout& b,
               const Layout& d) {
  for (int64_t j = 0; j < static_cast<int64_t>(s.n); ++j) {
    double sum = 0;
    for (int64_t k = 0; k < static_cast<int64_t>(s.k); ++k)
      sum += load(b_data, b.type, place(b, p.transpose_b == BLAS_CONSTANT(OP_T), 0, k, j));
    save(const_cast<void*>(p.bias), d.type, j, sum);
  }
}

// What the epilogue makes of a product y, which is element (i, j) of matrix `batch`.
double finish(const Description& p, const Layout& d, int64_t batch, int64_t i, int64_t j,
              double y) {
  const int64_t aux = batch * p.aux_stride + j * p.aux_ld + i;
  if (p.has_bias()) y += load(p.bias, d.type, i);
  if (p.gradient()) return y * gelu_derivative(load(p.aux, d.type, aux));
  if (p.has_aux()) save(const_cast<void*>(p.aux), d.type, aux, y);
  return activate(p, y);
}

}  // namespace

extern "C" {

Status LT(Create)(LT(Handle_t) * handle) { return create(handle, 0); }
Status LT(Destroy)(LT(Handle_t) handle) { return destroy<int>(handle); }
#if defined(BACKENDS_GPU_CUDA)
const char* cublasLtGetStatusString(Status) { return "an error of the test double"; }
#endif

Status LT(MatmulDescCreate)(LT(MatmulDesc_t) * p, BLAS(ComputeType_t) compute, BlasNumber scale) {
  return create(p, Description{compute, scale, BLAS_CONSTANT(OP_N), BLAS_CONSTANT(OP_N),
                               LT_CONSTANT(EPILOGUE_DEFAULT), -1, nullptr, nullptr, 0, 0});
}
Status LT(MatmulDescDestroy)(LT(MatmulDesc_t) p) { return destroy<Description>(p); }
Status LT(MatmulDescSetAttribute)(LT(MatmulDesc_t) desc, LT(MatmulDescAttributes_t) key,
                                  const void* value, size_t bytes) {
  auto& p = inside<Description>(desc);
  switch (key) {
    case LT_CONSTANT(MATMUL_DESC_TRANSA):
      return store(p.transpose_a, value, bytes);
    case LT_CONSTANT(MATMUL_DESC_TRANSB):
      return store(p.transpose_b, value, bytes);
    case LT_CONSTANT(MATMUL_DESC_EPILOGUE):
      return store(p.epilogue, value, bytes);
    case LT_CONSTANT(MATMUL_DESC_BIAS_DATA_TYPE):
      return store(p.bias_type, value, bytes);
    case LT_CONSTANT(MATMUL_DESC_BIAS_POINTER):
      return store(p.bias, value, bytes);
    case LT_CONSTANT(MATMUL_DESC_EPILOGUE_AUX_POINTER):
      return store(p.aux, value, bytes);
    case LT_CONSTANT(MATMUL_DESC_EPILOGUE_AUX_LD):
      return store(p.aux_ld, value, bytes);
    case LT_CONSTANT(MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE):
      return store(p.aux_stride, value, bytes);
    default:
      return BLAS_CONSTANT(STATUS_INVALID_VALUE);
  }
}

Status LT(MatrixLayoutCreate)(LT(MatrixLayout_t) * layout, BlasNumber type, uint64_t rows,
                              uint64_t cols, int64_t ld) {
  return create(layout, Layout{type, 1, rows, cols, ld, 0});
}
Status LT(MatrixLayoutDestroy)(LT(MatrixLayout_t) layout) { return destroy<Layout>(layout); }
Status LT(MatrixLayoutSetAttribute)(LT(MatrixLayout_t) layout, LT(MatrixLayoutAttribute_t) key,
                                    const void* value, size_t bytes) {
  auto& x = inside<Layout>(layout);
  if (key == LT_CONSTANT(MATRIX_LAYOUT_BATCH_COUNT)) return store(x.batch, value, bytes);
  if (key == LT_CONSTANT(MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)) return store(x.stride, value, bytes);
  return BLAS_CONSTANT(STATUS_INVALID_VALUE);
}

Status LT(MatmulPreferenceCreate)(LT(MatmulPreference_t) * p) { return create(p, Preference{0}); }
Status LT(MatmulPreferenceDestroy)(LT(MatmulPreference_t) p) { return destroy<Preference>(p); }
Status LT(MatmulPreferenceSetAttribute)(LT(MatmulPreference_t) preference,
                                        LT(MatmulPreferenceAttributes_t) key, const void* value,
                                        size_t bytes) {
  auto& p = inside<Preference>(preference);
  if (key == LT_CONSTANT(MATMUL_PREF_MAX_WORKSPACE_BYTES)) return store(p.workspace, value, bytes);
#if defined(BACKENDS_GPU_CUDA)
  if (key == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK ||
      key == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES ||
      key == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES ||
      key == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES ||
      key == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
    return BLAS_CONSTANT(STATUS_SUCCESS);
#endif
  return BLAS_CONSTANT(STATUS_INVALID_VALUE);
}

// Offers two algorithms; the second needs a workspace of 1 KiB.
Status LT(MatmulAlgoGetHeuristic)(LT(Handle_t), LT(MatmulDesc_t) desc, LT(MatrixLayout_t) a,
                                  LT(MatrixLayout_t) b, LT(MatrixLayout_t) c, LT(MatrixLayout_t) d,
                                  LT(MatmulPreference_t) preference, int wanted,
                                  LT(MatmulHeuristicResult_t) * results, int* count) {
  const auto& p = inside<Description>(desc);
  *count = 0;
  if (!is_lawful(p, inside<Layout>(a), inside<Layout>(b), inside<Layout>(c), inside<Layout>(d)))
    return BLAS_CONSTANT(STATUS_INVALID_VALUE);
  if (p.epilogue != LT_CONSTANT(EPILOGUE_DEFAULT) && inside<Layout>(a).type == BLAS_NUMBER(R_64F))
    return BLAS_CONSTANT(STATUS_NOT_SUPPORTED);
  for (int i = 0; i < wanted && i < 2; ++i) {
    if (inside<Preference>(preference).workspace < kScratch * static_cast<unsigned>(i)) break;
    results[i] = {};
    results[i].algo.data[0] = static_cast<uint8_t>(i + 1);
    results[i].workspaceSize = kScratch * static_cast<unsigned>(i);
    results[i].state = BLAS_CONSTANT(STATUS_SUCCESS);
    ++*count;
  }
  return BLAS_CONSTANT(STATUS_SUCCESS);
}

Status LT(Matmul)(LT(Handle_t), LT(MatmulDesc_t) desc, const void* alpha, const void* a_data,
                  LT(MatrixLayout_t) a_layout, const void* b_data, LT(MatrixLayout_t) b_layout,
                  const void* beta, const void* c_data, LT(MatrixLayout_t) c_layout, void* d_data,
                  LT(MatrixLayout_t) d_layout, const LT(MatmulAlgo_t) * algo, void* workspace,
                  size_t workspace_bytes, GPU(Stream_t) stream) {
#if defined(BACKENDS_GPU_CUDA)
  if (stream != nullptr) ++stream->launches;
#else
  static_cast<void>(stream);
#endif
  const auto& p = inside<Description>(desc);
  const Layout &a = inside<Layout>(a_layout), &b = inside<Layout>(b_layout),
               &c = inside<Layout>(c_layout), &d = inside<Layout>(d_layout);
  if (!is_lawful(p, a, b, c, d)) return BLAS_CONSTANT(STATUS_INVALID_VALUE);
  const uint64_t needed = kScratch * (algo->data[0] - 1u);
  if (workspace_bytes < needed || (needed > 0 && workspace == nullptr))
    return BLAS_CONSTANT(STATUS_INVALID_VALUE);
  if (needed > 0) std::memset(workspace, 0xff, needed);
  const Shape s(p, a, b);
  const bool tf32 = p.compute == BLAS_CONSTANT(COMPUTE_32F_FAST_TF32);
  const auto operand = [tf32](const void* data, const Layout& x, int64_t i) {
    const double value = load(data, x.type, i);
    return tf32 ? as_tf32(value) : value;
  };
  const bool ta = p.transpose_a == BLAS_CONSTANT(OP_T), tb = p.transpose_b == BLAS_CONSTANT(OP_T);
  if (p.sums_right()) sum_right(p, s, b_data, b, d);
  for (int64_t batch = 0; batch < d.batch; ++batch) {
    for (int64_t i = 0; i < static_cast<int64_t>(s.m); ++i) {
      for (int64_t j = 0; j < static_cast<int64_t>(s.n); ++j) {
        double sum = 0;
        for (int64_t k = 0; k < static_cast<int64_t>(s.k); ++k) {
          sum += operand(a_data, a, place(a, ta, batch, i, k)) *
                 operand(b_data, b, place(b, tb, batch, k, j));
        }
        const double scale = load(beta, p.scale, 0);
        double y = load(alpha, p.scale, 0) * sum;
        if (scale != 0) y += scale * load(c_data, c.type, place(c, false, batch, i, j));
        save(d_data, d.type, place(d, false, batch, i, j), finish(p, d, batch, i, j, y));
      }
    }
  }
  return BLAS_CONSTANT(STATUS_SUCCESS);
}

}  // extern "C"
