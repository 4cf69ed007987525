// matmul, conv2d and its two gradients without a vendor's library. One tiled product serves all of
// them. It computes its operands from their indices, so a convolution is a product with patches
// that never exist in memory (implicit GEMM; Chetlur et al., "cuDNN: efficient primitives for deep
// learning", 2014).
#include "backends/gpu/column_functions.h"
#include "backends/gpu/divisor.h"
#include "backends/gpu/post_ops.h"
#include "rt/sdk/post_ops.h"
#include "rt/sdk/window.h"

namespace backends::gpu {
namespace {

constexpr int kTile = 64;    // rows of the result of a block of threads, and its columns
constexpr int kNarrow = 32;  // columns of the result of a block if the result has no more
constexpr int kDepth = 16;   // extent of k that is in shared memory at a time
constexpr int kSide = 16;    // threads along each side; each computes several results
constexpr int kMostSplits = 128;

struct Extent {
  int64_t m, n, k;
  int64_t batch;   // number of products
  int64_t splits;  // of k; each split writes a partial result of its own
  int64_t depth;   // length of a split along k, a multiple of kDepth
  int64_t results() const { return batch * m * n; }
  int64_t tile_columns() const { return n <= kNarrow ? kNarrow : kTile; }
};

// A few hundred blocks keep the device busy. If there are fewer, a long k is divided among several
// blocks.
Extent extent_of(const Properties& properties, int64_t m, int64_t n, int64_t k, int64_t batch) {
  const int64_t blocks = divide_up(m, kTile) * divide_up(n, kTile) * batch;
  const int64_t wanted = blocks == 0 ? 1 : 2 * properties.multiprocessors / blocks;
  const int64_t splits = std::clamp<int64_t>(std::min(wanted, k / 256), 1, kMostSplits);
  const int64_t depth = std::max<int64_t>(divide_up(divide_up(k, splits), kDepth) * kDepth, kDepth);
  return {m, n, k, batch, std::max<int64_t>(divide_up(k, depth), 1), depth};
}

template <typename T>
uint64_t workspace_of(const Extent& e) {
  return e.splits == 1 ? 0 : static_cast<uint64_t>(e.splits * e.results()) * sizeof(Compute<T>);
}

// c(batch, i, j) = sum over k of a(batch, i, k) b(batch, k, j). `along_k` of a loader says whether
// its neighbouring elements in memory are neighbours along k, so that neighbouring threads read
// neighbouring elements. A block computes kTile rows and kColumns columns.
template <typename C, int kColumns, typename A, typename B, typename Store>
GPU_KERNEL void product_kernel(Extent e, A a, B b, Store store) {
  constexpr int kRowsEach = kTile / kSide, kColumnsEach = kColumns / kSide;
  __shared__ C left[kDepth][kTile + 1];
  __shared__ C right[kDepth][kColumns + 1];
  const int t = static_cast<int>(threadIdx.x), ti = t / kSide, tj = t % kSide;
  const int64_t i0 = static_cast<int64_t>(blockIdx.x) * kTile,
                j0 = static_cast<int64_t>(blockIdx.y) * kColumns;
  for (int64_t z = blockIdx.z; z < e.batch * e.splits; z += gridDim.z) {
    const int64_t batch = z / e.splits, split = z % e.splits;
    const int64_t begin = split * e.depth, end = begin + e.depth < e.k ? begin + e.depth : e.k;
    C sums[kRowsEach][kColumnsEach];
    for (int r = 0; r < kRowsEach; ++r) {
      for (int s = 0; s < kColumnsEach; ++s) sums[r][s] = C(0);
    }
    for (int64_t k0 = begin; k0 < end; k0 += kDepth) {
      for (int v = t; v < kTile * kDepth; v += kBlock) {
        const int i = a.along_k ? v / kDepth : v % kTile, ka = a.along_k ? v % kDepth : v / kTile;
        left[ka][i] = i0 + i < e.m && k0 + ka < end ? a(batch, i0 + i, k0 + ka) : C(0);
      }
      for (int v = t; v < kColumns * kDepth; v += kBlock) {
        const int j = b.along_k ? v / kDepth : v % kColumns,
                  kb = b.along_k ? v % kDepth : v / kColumns;
        right[kb][j] = j0 + j < e.n && k0 + kb < end ? b(batch, k0 + kb, j0 + j) : C(0);
      }
      __syncthreads();
      for (int k = 0; k < kDepth; ++k) {
        C x[kRowsEach], y[kColumnsEach];
        for (int r = 0; r < kRowsEach; ++r) x[r] = left[k][ti + r * kSide];
        for (int s = 0; s < kColumnsEach; ++s) y[s] = right[k][tj + s * kSide];
        for (int r = 0; r < kRowsEach; ++r) {
          for (int s = 0; s < kColumnsEach; ++s) sums[r][s] += x[r] * y[s];
        }
      }
      __syncthreads();
    }
    for (int r = 0; r < kRowsEach; ++r) {
      for (int s = 0; s < kColumnsEach; ++s) {
        const int64_t i = i0 + ti + r * kSide, j = j0 + tj + s * kSide;
        if (i < e.m && j < e.n) store(z, batch, i, j, sums[r][s]);
      }
    }
  }
}

// Stores into the partial results with number z.
template <typename C>
struct StorePartial {
  C* partial;
  int64_t m, n;
  GPU_DEVICE void operator()(int64_t z, int64_t, int64_t i, int64_t j, C sum) const {
    partial[(z * m + i) * n + j] = sum;
  }
};
template <typename C, typename Store>
struct AddSplits {
  const C* partial;
  Extent e;
  Store store;
  GPU_DEVICE void operator()(int64_t at) const {
    const int64_t each = e.m * e.n, batch = at / each, in = at - batch * each;
    C sum = partial[batch * e.splits * each + in];
    for (int64_t s = 1; s < e.splits; ++s) sum += partial[(batch * e.splits + s) * each + in];
    store(batch, batch, in / e.n, in % e.n, sum);
  }
};

// What product() queues, if the operands are `left` and `right` bytes, and the result with the
// operands of its post-operations `result` bytes. A row of blocks reads the right operand at the
// same time, so it comes from memory once; the left one comes once for each column of blocks.
template <typename T>
std::vector<Work> product_work(const Extent& e, double left, double right, double result,
                               const char* name) {
  if (e.results() == 0) return {};
  const double read = left * static_cast<double>(divide_up(e.n, e.tile_columns())) + right;
  const double flops = 2.0 * static_cast<double>(e.results()) * static_cast<double>(e.k);
  if (e.splits == 1) return {{name, read + result, flops}};
  const auto partial = static_cast<double>(workspace_of<T>(e));
  return {{name, read + partial, flops}, {std::string(name) + " sum", partial + result, 0}};
}

// Bytes of the result, of what post-operations store, and of their operands.
double result_bytes(const Operation& op, uint32_t own_inputs) {
  double bytes = bytes_of(op.output(0));
  for (uint32_t i = own_inputs; i < op.input_count(); ++i) bytes += bytes_of(op.input(i));
  for (uint32_t i = rt::sdk::own_output_count(op); i < op.output_count(); ++i)
    bytes += bytes_of(op.output(i));
  return bytes;
}

template <typename C, typename A, typename B, typename Store>
void launch_product(const Launch& l, const Extent& e, A a, B b, Store store, const char* name) {
  const dim3 grid(static_cast<uint32_t>(divide_up(e.m, kTile)),
                  static_cast<uint32_t>(divide_up(e.n, e.tile_columns())),
                  static_cast<uint32_t>(std::min<int64_t>(e.batch * e.splits, 65535)));
  if (e.tile_columns() == kNarrow) {
    GPU_LAUNCH((product_kernel<C, kNarrow, A, B, Store>), grid, dim3(kBlock), l.stream, e, a, b,
               store);
  } else {
    GPU_LAUNCH((product_kernel<C, kTile, A, B, Store>), grid, dim3(kBlock), l.stream, e, a, b,
               store);
  }
  check_launch(name);
}

template <typename C, typename A, typename B, typename Store>
void product(const Launch& l, const Extent& e, A a, B b, Store store, const char* name) {
  if (e.results() == 0) return;
  if (e.splits == 1) return launch_product<C>(l, e, a, b, store, name);
  auto* partial = static_cast<C*>(l.workspace);
  launch_product<C>(l, e, a, b, StorePartial<C>{partial, e.m, e.n}, name);
  for_each(l, e.results(), AddSplits<C, Store>{partial, e, store}, name);
}

// ---- matmul

// Element (row, column) of matrix `batch` is at row * row_step + column * column_step.
template <typename T>
struct Matrix {
  const T* data;
  int64_t row_step, column_step, batch_step;
  bool along_k;
  GPU_DEVICE Compute<T> operator()(int64_t batch, int64_t row, int64_t column) const {
    return static_cast<Compute<T>>(
        data[batch * batch_step + row * row_step + column * column_step]);
  }
};
template <typename T>
struct StoreMatrix {
  T* data;
  int64_t m, n;
  PostOps post;
  GPU_DEVICE void operator()(int64_t, int64_t batch, int64_t i, int64_t j, Compute<T> sum) const {
    const int64_t at = (batch * m + i) * n + j;
    data[at] = static_cast<T>(post.apply<T>(sum, at, j));
  }
};

template <typename T>
struct StoreBias {
  T* db;
  GPU_DEVICE void operator()(int64_t c, Compute<T> (&totals)[1]) const {
    db[c] = static_cast<T>(totals[0]);
  }
};

struct MatmulShape {
  Extent e;
  bool ta, tb, shared_b;
  bool row_sums;  // whether the sums over the rows of a transposed a are an output
};

MatmulShape matmul_shape(const Properties& properties, const Operation& op) {
  const rt_tensor_desc &a = op.input(0), &b = op.input(1);
  MatmulShape s{};
  s.ta = op.integer(RT_ATTR_TRANSPOSE_A, 0) != 0;
  s.tb = op.integer(RT_ATTR_TRANSPOSE_B, 0) != 0;
  s.shared_b = b.rank == 2;
  s.row_sums = rt::sdk::own_output_count(op) > 1;
  const int64_t k = a.dims[a.rank - (s.ta ? 2 : 1)], n = b.dims[b.rank - (s.tb ? 2 : 1)];
  int64_t m = a.dims[a.rank - (s.ta ? 1 : 2)], batch = 1;
  for (int32_t d = 0; d + 2 < a.rank; ++d) batch *= a.dims[d];
  if (s.shared_b && !s.ta) {  // the rows of all matrices form one matrix
    m *= batch;
    batch = 1;
  }
  s.e = extent_of(properties, m, n, k, batch);
  return s;
}

// The results are of type Out.
template <typename T, typename Out>
Kernel matmul_kernel(const MatmulShape& s, const Operation& op) {
  using C = Compute<T>;
  const Extent e = s.e;
  const PostPlan post(op);
  const uint64_t column_bytes = s.row_sums ? column_workspace<C>(e.k, e.m, 1) : 0;
  const double a_bytes = bytes_of(op.input(0)), b_bytes = bytes_of(op.input(1));
  Kernel kernel;
  kernel.workspace_bytes = std::max(workspace_of<T>(e), column_bytes);
  kernel.work = product_work<T>(e, a_bytes, b_bytes, result_bytes(op, 2), "matmul");
  if (s.row_sums) column_work(kernel.work, a_bytes, bytes_of(op.output(1)), column_bytes);
  kernel.run = [=](const Launch& l) {
    const Matrix<T> left{l.input<T>(0), s.ta ? 1 : e.k, s.ta ? e.m : 1, e.m * e.k, !s.ta};
    const Matrix<T> right{l.input<T>(1), s.tb ? 1 : e.n, s.tb ? e.k : 1, s.shared_b ? 0 : e.k * e.n,
                          s.tb};
    product<C>(l, e, left, right, StoreMatrix<Out>{l.output<Out>(0), e.m, e.n, post.bind(l)},
               "matmul");
    if (!s.row_sums) return;
    column_sums<C, 1>(l, e.k, e.m, static_cast<C*>(l.workspace), ColumnOf<T>(l.input<T>(0), e.m),
                      StoreBias<Out>{l.output<Out>(1)}, "matmul");
  };
  return kernel;
}

Kernel make_matmul(const Properties& properties, const Operation& op) {
  // The post-operations of post_ops.h do not store.
  if (rt::sdk::stored_outputs(op) > 0)
    throw rt::sdk::Error(RT_ERROR_UNSUPPORTED, "matmul: the own kernel does not store");
  const MatmulShape s = matmul_shape(properties, op);
  const bool widens = op.output(0).dtype == RT_FLOAT32;
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    if constexpr (sizeof(T) == 2) {
      if (widens) return matmul_kernel<T, float>(s, op);
    }
    return matmul_kernel<T, T>(s, op);
  });
}

// ---- convolutions

struct ConvShape {
  int64_t n, h, w, c;      // image
  int64_t p, q, o;         // result
  int64_t groups, cg, og;  // channels of one group
  int64_t kh, kw, stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
};

ConvShape conv_shape(const Operation& op, const rt_tensor_desc& x, const rt_tensor_desc& w,
                     const rt_tensor_desc& y) {
  const rt::sdk::Window window = rt::sdk::convolution_window(op, w.dims[1], w.dims[2]);
  ConvShape s{};
  s.n = x.dims[0], s.h = x.dims[1], s.w = x.dims[2], s.c = x.dims[3];
  s.p = y.dims[1], s.q = y.dims[2], s.o = y.dims[3];
  s.groups = op.integer(RT_ATTR_GROUPS, 1);
  s.cg = w.dims[3], s.og = s.o / s.groups;
  s.kh = window.kernel_h, s.kw = window.kernel_w;
  s.stride_h = window.stride_h, s.stride_w = window.stride_w;
  s.pad_top = window.pad_top, s.pad_left = window.pad_left;
  s.dilation_h = window.dilation_h, s.dilation_w = window.dilation_w;
  return s;
}

// The place [outer][middle][inner] of a number: the tap (kh, kw) and the channel of a number in
// [KH][KW][channels], or the image and the pixel of one in [N][height][width].
class Places {
 public:
  Places(int64_t middle, int64_t inner) : middle_(middle), inner_(inner) {}
  struct Place {
    int64_t outer, middle, inner;
  };
  GPU_DEVICE Place of(int64_t number) const {
    const int64_t line = divided(number, inner_), outer = divided(line, middle_);
    return {outer, line - outer * middle_.value(), number - line * inner_.value()};
  }

 private:
  // Nearly all tensors have fewer than 2^31 elements, and then no size of theirs is larger.
  GPU_DEVICE static int64_t divided(int64_t n, const Divisor& by) {
    return (n | by.value()) >> 31 == 0 ? by.small_quotient(static_cast<uint32_t>(n))
                                       : by.quotient(n);
  }
  Divisor middle_, inner_;
};
using Place = Places::Place;

// The element of x that output pixel `pixel` reads at a tap; 0 for padding.
template <typename T>
GPU_DEVICE Compute<T> patch(const T* x, const ConvShape& s, int64_t group, const Place& pixel,
                            const Place& tap) {
  const int64_t row = pixel.middle * s.stride_h - s.pad_top + tap.outer * s.dilation_h;
  const int64_t column = pixel.inner * s.stride_w - s.pad_left + tap.middle * s.dilation_w;
  if (row < 0 || row >= s.h || column < 0 || column >= s.w) return Compute<T>(0);
  return static_cast<Compute<T>>(
      x[((pixel.outer * s.h + row) * s.w + column) * s.c + group * s.cg + tap.inner]);
}

template <typename T>
struct PatchRows {  // [pixels, taps]
  const T* x;
  ConvShape s;
  Places pixels{s.p, s.q}, taps{s.kw, s.cg};
  bool along_k = true;
  GPU_DEVICE Compute<T> operator()(int64_t group, int64_t i, int64_t k) const {
    return patch(x, s, group, pixels.of(i), taps.of(k));
  }
};
template <typename T>
struct PatchColumns {  // [pixels, taps] as the right operand of the weight gradient
  const T* x;
  ConvShape s;
  Places pixels{s.p, s.q}, taps{s.kw, s.cg};
  bool along_k = false;
  GPU_DEVICE Compute<T> operator()(int64_t group, int64_t k, int64_t j) const {
    return patch(x, s, group, pixels.of(k), taps.of(j));
  }
};
template <typename T>
struct GradientPatches {  // [image pixels, taps of dy]
  const T* dy;
  ConvShape s;
  Places pixels{s.h, s.w}, taps{s.kw, s.og};
  bool along_k = true;
  GPU_DEVICE Compute<T> operator()(int64_t group, int64_t i, int64_t k) const {
    const Place pixel = pixels.of(i), tap = taps.of(k);
    int64_t p = pixel.middle + s.pad_top - tap.outer * s.dilation_h;
    int64_t q = pixel.inner + s.pad_left - tap.middle * s.dilation_w;
    if (p < 0 || q < 0) return Compute<T>(0);
    if (s.stride_h > 1 || s.stride_w > 1) {
      if (p % s.stride_h != 0 || q % s.stride_w != 0) return Compute<T>(0);
      p /= s.stride_h, q /= s.stride_w;
    }
    if (p >= s.p || q >= s.q) return Compute<T>(0);
    return static_cast<Compute<T>>(
        dy[((pixel.outer * s.p + p) * s.q + q) * s.o + group * s.og + tap.inner]);
  }
};
// The weights of one group as the right operand of the data gradient; k counts taps and output
// channels, j input channels.
template <typename T>
struct WeightsForData {
  const T* w;
  ConvShape s;
  Places taps{s.kw, s.og};
  bool along_k = false;
  GPU_DEVICE Compute<T> operator()(int64_t group, int64_t k, int64_t j) const {
    const Place tap = taps.of(k);
    return static_cast<Compute<T>>(
        w[(((group * s.og + tap.inner) * s.kh + tap.outer) * s.kw + tap.middle) * s.cg + j]);
  }
};
// Stores a result [rows, channels of all groups]; j is a column of one group.
template <typename T>
struct StoreChannels {
  T* y;
  int64_t channels, of_group;
  PostOps post;
  GPU_DEVICE void operator()(int64_t, int64_t group, int64_t i, int64_t j, Compute<T> sum) const {
    const int64_t column = group * of_group + j, at = i * channels + column;
    y[at] = static_cast<T>(post.apply<T>(sum, at, column));
  }
};

Kernel make_conv2d(const Properties& properties, const Operation& op) {
  const ConvShape s = conv_shape(op, op.input(0), op.input(1), op.output(0));
  const int64_t taps = s.kh * s.kw * s.cg;
  const Extent e = extent_of(properties, s.n * s.p * s.q, s.og, taps, s.groups);
  const PostPlan post(op);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.workspace_bytes = workspace_of<T>(e);
    kernel.work = product_work<T>(e, bytes_of(op.input(0)), bytes_of(op.input(1)),
                                  result_bytes(op, 2), "conv2d");
    kernel.run = [=](const Launch& l) {
      product<Compute<T>>(l, e, PatchRows<T>{l.input<T>(0), s},
                          Matrix<T>{l.input<T>(1), 1, taps, s.og * taps, true},
                          StoreChannels<T>{l.output<T>(0), s.o, s.og, post.bind(l)}, "conv2d");
    };
    return kernel;
  });
}

Kernel make_conv2d_backward_data(const Properties& properties, const Operation& op) {
  const ConvShape s = conv_shape(op, op.output(0), op.input(1), op.input(0));
  const Extent e = extent_of(properties, s.n * s.h * s.w, s.cg, s.kh * s.kw * s.og, s.groups);
  const PostPlan post(op);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.workspace_bytes = workspace_of<T>(e);
    kernel.work = product_work<T>(e, bytes_of(op.input(0)), bytes_of(op.input(1)),
                                  result_bytes(op, 2), "conv2d_backward_data");
    kernel.run = [=](const Launch& l) {
      product<Compute<T>>(
          l, e, GradientPatches<T>{l.input<T>(0), s}, WeightsForData<T>{l.input<T>(1), s},
          StoreChannels<T>{l.output<T>(0), s.c, s.cg, post.bind(l)}, "conv2d_backward_data");
    };
    return kernel;
  });
}

Kernel make_conv2d_backward_weights(const Properties& properties, const Operation& op) {
  const ConvShape s = conv_shape(op, op.input(0), op.output(0), op.input(1));
  const int64_t pixels = s.n * s.p * s.q, taps = s.kh * s.kw * s.cg;
  const Extent e = extent_of(properties, s.og, taps, pixels, s.groups);
  const bool bias = op.output_count() > 1;
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    const uint64_t column_bytes = bias ? column_workspace<C>(pixels, s.o, 1) : 0;
    kernel.workspace_bytes = std::max(workspace_of<T>(e), column_bytes);
    kernel.work = product_work<T>(e, bytes_of(op.input(1)), bytes_of(op.input(0)),
                                  bytes_of(op.output(0)), "conv2d_backward_weights");
    if (bias) {
      column_work(kernel.work, bytes_of(op.input(1)), bytes_of(op.output(1)), column_bytes);
    }
    kernel.run = [=](const Launch& l) {
      // Batch b is group b, whose rows of dw follow those of the group before.
      product<C>(l, e, Matrix<T>{l.input<T>(1), 1, s.o, s.og, false},
                 PatchColumns<T>{l.input<T>(0), s},
                 StoreMatrix<T>{l.output<T>(0), s.og, taps, PostOps{}}, "conv2d_backward_weights");
      if (!bias) return;
      column_sums<C, 1>(l, pixels, s.o, static_cast<C*>(l.workspace),
                        ColumnOf<T>(l.input<T>(1), s.o), StoreBias<T>{l.output<T>(1)},
                        "conv2d_backward_weights");
    };
    return kernel;
  });
}

constexpr Entry kEntries[] = {
    {RT_OP_MATMUL, make_matmul, true},
    {RT_OP_CONV2D, make_conv2d, true},
    {RT_OP_CONV2D_BACKWARD_DATA, make_conv2d_backward_data, true},
    {RT_OP_CONV2D_BACKWARD_WEIGHTS, make_conv2d_backward_weights},
};

}  // namespace

Family product_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
