// matmul, conv2d and its two gradients without a vendor's library. One tiled product (product.h)
// serves all of them but convolutions with few taps.
#include <limits>

#include "backends/gpu/convolution_direct.h"
#include "backends/gpu/convolution_operands.h"
#include "backends/gpu/fold_gradient.h"
#include "backends/gpu/gradient_operands.h"
#include "backends/gpu/product.h"
#include "rt/sdk/post_ops.h"
#include "rt/sdk/window.h"

namespace backends::gpu {
namespace {

// Bytes of the result, of what post-operations store, and of their operands.
double result_bytes(const Operation& op, uint32_t own_inputs) {
  double bytes = bytes_of(op.output(0));
  for (uint32_t i = own_inputs; i < op.input_count(); ++i) bytes += bytes_of(op.input(i));
  for (uint32_t i = rt::sdk::own_output_count(op); i < op.output_count(); ++i)
    bytes += bytes_of(op.output(i));
  return bytes;
}

// ---- matmul

// Steps are the distances in memory between neighbouring lines, terms and matrices.
template <typename T>
struct Matrix {
  using Line = const T*;
  const T* data;
  int64_t line_step, term_step, batch_step;
  bool along_k;
  GPU_DEVICE const T* line(int64_t batch, int64_t i) const {
    return data + batch * batch_step + i * line_step;
  }
  GPU_DEVICE int64_t term(int64_t k) const { return k * term_step; }
  GPU_DEVICE Compute<T> value(const T* line, int64_t term, bool real) const {
    return element_if(real, line, term);
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
  s.e = extent_of<TallTile>(properties, m, n, k, batch);
  return s;
}

// The results are of type Out.
template <typename T, typename Out>
Kernel matmul_kernel(const MatmulShape& s, const Operation& op) {
  using C = Compute<T>;
  const Extent e = s.e;
  const PostPlan post(op);
  const uint64_t column_bytes = s.row_sums ? column_workspace<C>(op, e.k, e.m, 1) : 0;
  const double a_bytes = bytes_of(op.input(0)), b_bytes = bytes_of(op.input(1));
  Kernel kernel;
  kernel.workspace_bytes = std::max(workspace_of<C>(e), column_bytes);
  kernel.work = product_work<C, TallTile>(e, a_bytes, b_bytes, result_bytes(op, 2), "matmul");
  if (s.row_sums) column_work(kernel.work, a_bytes, bytes_of(op.output(1)), column_bytes);
  kernel.run = [=](const Launch& l) {
    const Matrix<T> left{l.input<T>(0), s.ta ? 1 : e.k, s.ta ? e.m : 1, e.m * e.k, !s.ta};
    const Matrix<T> right{l.input<T>(1), s.tb ? e.k : 1, s.tb ? 1 : e.n, s.shared_b ? 0 : e.k * e.n,
                          s.tb};
    const StoreMatrix<Out> store{l.output<Out>(0), e.m, e.n, post.bind(l)};
    product<C, TallTile>(l, e, left, right, store, "matmul");
    if (!s.row_sums) return;
    column_sums<C, 1>(l, e.k, e.m, static_cast<C*>(l.workspace), ColumnOf<T>(l.input<T>(0), e.m),
                      StoreBias<Out>{l.output<Out>(1)}, "matmul");
  };
  return kernel;
}

Kernel make_matmul(const Properties& properties, const Operation& op) {
  // Only a library's product stores on the way (kernel_table.cpp).
  if (rt::sdk::stored_outputs(op) > 0)
    throw rt::sdk::Error(RT_ERROR_UNSUPPORTED, "matmul: the own kernel does not store");
  const MatmulShape s = matmul_shape(properties, op);
  expect_tiles<TallTile>(op, s.e);
  const bool widens = op.output(0).dtype == RT_FLOAT32;
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    if constexpr (sizeof(T) == 2) {
      if (widens) return matmul_kernel<T, float>(s, op);
    }
    return matmul_kernel<T, T>(s, op);
  });
}

// ---- convolutions

// The kernels count with 32 bits. `what` is in the plural.
int32_t narrowed(const Operation& op, int64_t size, const char* what) {
  expect_at_most(op, size, std::numeric_limits<int32_t>::max(), what);
  return static_cast<int32_t>(size);
}
// A stride or a dilation. A longer one than fits is multiplied with 0 only, because rows and
// columns fit.
int32_t step_of(int64_t step) {
  return static_cast<int32_t>(std::min<int64_t>(step, std::numeric_limits<int32_t>::max()));
}

ConvShape conv_shape(const Operation& op, const rt_tensor_desc& x, const rt_tensor_desc& w,
                     const rt_tensor_desc& y) {
  const rt::sdk::Window window = rt::sdk::convolution_window(op, w.dims[1], w.dims[2]);
  const auto narrow = [&](int64_t size, const char* what) { return narrowed(op, size, what); };
  ConvShape s{};
  s.padded_h = narrow(x.dims[1] + window.pad_top + window.pad_bottom, "padded rows");
  s.padded_w = narrow(x.dims[2] + window.pad_left + window.pad_right, "padded columns");
  narrow(std::max(x.dims[3], y.dims[3]), "channels");
  narrow(rt::sdk::element_count(w), "weights");
  s.n = narrow(x.dims[0], "images"), s.c = x.dims[3], s.o = y.dims[3];
  s.h = static_cast<int32_t>(x.dims[1]), s.w = static_cast<int32_t>(x.dims[2]);
  s.p = static_cast<int32_t>(y.dims[1]), s.q = static_cast<int32_t>(y.dims[2]);
  s.groups = op.integer(RT_ATTR_GROUPS, 1);
  s.cg = static_cast<int32_t>(w.dims[3]), s.og = static_cast<int32_t>(s.o / s.groups);
  s.kh = static_cast<int32_t>(window.kernel_h), s.kw = static_cast<int32_t>(window.kernel_w);
  s.stride_h = step_of(window.stride_h), s.stride_w = step_of(window.stride_w);
  s.pad_top = static_cast<int32_t>(window.pad_top);
  s.pad_left = static_cast<int32_t>(window.pad_left);
  s.dilation_h = step_of(window.dilation_h), s.dilation_w = step_of(window.dilation_w);
  return s;
}

// Refuses an image whose elements are too many.
void check_image(const Operation& op, int64_t rows, int64_t columns, int64_t channels,
                 const char* what) {
  narrowed(op, narrowed(op, rows * columns, "pixels of an image") * channels, what);
}
// Refuses an image that patches cannot be read from.
void check_patches(const Operation& op, const ConvShape& s) {
  check_image(op, s.padded_h, s.padded_w, s.c, "elements of a padded image");
}

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

// Makes the kernel that computes each result for itself. It has few terms to add.
template <typename T>
Kernel direct_forward(const ConvShape& s, const Operation& op) {
  const int64_t count = s.n * s.p * s.q * s.o;
  Kernel kernel;
  kernel.work = product_work<Compute<T>, TallTile>(Extent{count, 1, s.taps() * s.cg, 1, 1, 1, true},
                                                   bytes_of(op.input(0)), bytes_of(op.input(1)),
                                                   result_bytes(op, 2), "conv2d");
  kernel.run = [=, post = PostPlan(op)](const Launch& l) {
    for_channels<T, DirectForward>(l, count, s.og, "conv2d", post.bind(l), s);
  };
  return kernel;
}

Kernel make_conv2d(const Properties& properties, const Operation& op) {
  // So few taps are not worth the tiles of a product, and so few weights of a group stay in the
  // first-level cache, from which each thread reads them.
  constexpr int64_t kFewTaps = 32, kFewWeights = 1024;
  const ConvShape s = conv_shape(op, op.input(0), op.input(1), op.output(0));
  check_patches(op, s);
  const int64_t taps = s.taps() * s.cg;
  const bool direct = taps <= kFewTaps && taps * s.og <= kFewWeights;
  const Extent e = extent_of<TallTile>(properties, s.n * s.p * s.q, s.og, taps, s.groups);
  if (!direct) expect_tiles<TallTile>(op, e);
  const PostPlan post(op);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    if (direct) return direct_forward<T>(s, op);
    Kernel kernel;
    kernel.workspace_bytes = workspace_of<C>(e);
    kernel.work = product_work<C, TallTile>(e, bytes_of(op.input(0)), bytes_of(op.input(1)),
                                            result_bytes(op, 2), "conv2d");
    kernel.run = [=](const Launch& l) {
      const Matrix<T> weights{l.input<T>(1), taps, 1, s.og * taps, true};
      const StoreChannels<T> store{l.output<T>(0), s.o, s.og, post.bind(l)};
      product<C, TallTile>(l, e, Patches<T, true>(l.input<T>(0), s), weights, store, "conv2d");
    };
    return kernel;
  });
}

// The gradient of the image is either one product, of pixels of the image by channels, which
// multiplies the zeros of windows that do not exist, too, and fills no tile if the channels are
// few. Or it is a product of pixels of the result by taps, whose results are written and then
// folded. `unfolded` is the extent of the latter. Returns whether it takes less time, in products
// of two numbers.
bool folding_pays(const ConvShape& s, const Extent& unfolded, uint64_t bytes) {
  constexpr uint64_t kMostBytes = 256 << 20;
  constexpr int64_t kMostColumns = 65535 * TallTile::kColumns;  // of a grid; rows are fewer
  // Products that take as long as to write a result, to read it again and to add it (H100).
  constexpr double kOfResult = 50;
  const auto padded = [](int64_t size, int64_t to) {
    return static_cast<double>(divide_up(size, to) * to);
  };
  const auto columns = [&](int64_t size, bool special) {
    return padded(size, special ? TallTile::kColumns : SquareTile::kColumns);
  };
  const double whole = static_cast<double>(s.n * s.h * s.w) * static_cast<double>(s.taps() * s.og) *
                       columns(s.cg, TallTile::suits(0, s.cg));
  const double parts = static_cast<double>(unfolded.m) *
                       (columns(unfolded.n, unfolded.special) * padded(s.og, SquareTile::kDepth) +
                        static_cast<double>(unfolded.n) * kOfResult);
  if (bytes > kMostBytes || unfolded.n > kMostColumns) return false;
  return parts < whole;
}

template <typename T>
Kernel folded_gradient(const ConvShape& s, const Extent& e, const Operation& op) {
  using C = Compute<T>;
  const uint64_t partial = (workspace_of<C>(e) + kAlignment - 1) / kAlignment * kAlignment;
  const uint64_t unfolded = static_cast<uint64_t>(e.results()) * sizeof(C);
  const auto unfolded_bytes = static_cast<double>(unfolded);
  Kernel kernel;
  kernel.workspace_bytes = partial + unfolded;
  kernel.work = product_work<C, TallTile>(e, bytes_of(op.input(0)), bytes_of(op.input(1)),
                                          unfolded_bytes, "conv2d_backward_data");
  kernel.work.push_back({"sums of windows", unfolded_bytes + result_bytes(op, 2)});
  kernel.run = [=, post = PostPlan(op)](const Launch& l) {
    C* const products = reinterpret_cast<C*>(static_cast<char*>(l.workspace) + partial);
    const Matrix<T> dy{l.input<T>(0), s.o, 1, s.og, true};
    const Matrix<T> weights{l.input<T>(1), 1, e.n, s.og * e.n, false};
    product<C, TallTile>(l, e, dy, weights, StoreMatrix<C>{products, e.m, e.n, PostOps{}},
                         "conv2d_backward_data");
    for_channels<T, FoldGradient>(l, s.n * s.h * s.w * s.c, s.cg, "conv2d_backward_data",
                                  post.bind(l), s, products);
  };
  return kernel;
}

Kernel make_conv2d_backward_data(const Properties& properties, const Operation& op) {
  const ConvShape s = conv_shape(op, op.output(0), op.input(1), op.input(0));
  const int64_t taps = s.taps();
  const Extent e = extent_of<TallTile>(properties, s.n * s.h * s.w, s.cg, taps * s.og, s.groups);
  const Extent unfolded =
      extent_of<TallTile>(properties, s.n * s.p * s.q, taps * s.cg, s.og, s.groups);
  const PostPlan post(op);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    if (folding_pays(s, unfolded, static_cast<uint64_t>(unfolded.results()) * sizeof(C)))
      return folded_gradient<T>(s, unfolded, op);
    expect_tiles<TallTile>(op, e);
    if (s.stride_h > 1 || s.stride_w > 1) {
      check_image(op, s.p, s.q, s.o, "elements of a gradient's image");
    } else {
      check_image(op, s.padded_h, s.padded_w, s.o, "elements of a padded gradient's image");
    }
    Kernel kernel;
    kernel.workspace_bytes = workspace_of<C>(e);
    kernel.work = product_work<C, TallTile>(e, bytes_of(op.input(0)), bytes_of(op.input(1)),
                                            result_bytes(op, 2), "conv2d_backward_data");
    kernel.run = [=](const Launch& l) {
      const WeightsForData<T> weights(l.input<T>(1), s);
      const StoreChannels<T> store{l.output<T>(0), s.c, s.cg, post.bind(l)};
      const auto multiply = [&](const auto& patches) {
        product<C, TallTile>(l, e, patches, weights, store, "conv2d_backward_data");
      };
      if (s.stride_h > 1 || s.stride_w > 1) {
        multiply(GradientPatches<T, true>(l.input<T>(0), s));
      } else {
        multiply(GradientPatches<T, false>(l.input<T>(0), s));
      }
    };
    return kernel;
  });
}

Kernel make_conv2d_backward_weights(const Properties& properties, const Operation& op) {
  const ConvShape s = conv_shape(op, op.input(0), op.output(0), op.input(1));
  check_patches(op, s);
  const int64_t pixels = s.n * s.p * s.q, taps = s.taps() * s.cg;
  const Extent e = extent_of<SmallTile>(properties, s.og, taps, pixels, s.groups);
  expect_tiles<SmallTile>(op, e);
  const bool bias = op.output_count() > 1;
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using C = Compute<T>;
    Kernel kernel;
    const uint64_t column_bytes = bias ? column_workspace<C>(op, pixels, s.o, 1) : 0;
    kernel.workspace_bytes = std::max(workspace_of<C>(e), column_bytes);
    kernel.work = product_work<C, SmallTile>(e, bytes_of(op.input(1)), bytes_of(op.input(0)),
                                             bytes_of(op.output(0)), "conv2d_backward_weights");
    if (bias) {
      column_work(kernel.work, bytes_of(op.input(1)), bytes_of(op.output(1)), column_bytes);
    }
    kernel.run = [=](const Launch& l) {
      // Batch b is group b, whose rows of dw follow those of the group before.
      const Matrix<T> gradient{l.input<T>(1), 1, s.o, s.og, false};
      const Patches<T, false> patches(l.input<T>(0), s);
      const StoreMatrix<T> store{l.output<T>(0), s.og, taps, PostOps{}};
      product<C, SmallTile>(l, e, gradient, patches, store, "conv2d_backward_weights");
      if (!bias) return;
      column_sums<C, 1>(l, pixels, s.o, static_cast<C*>(l.workspace),
                        ColumnOf<T>(l.input<T>(1), s.o), StoreBias<T>{l.output<T>(1)},
                        "conv2d_backward_weights");
    };
    return kernel;
  });
}

constexpr Entry kEntries[] = {
    {RT_OP_MATMUL, make_matmul, kFuses},
    {RT_OP_CONV2D, make_conv2d, kFuses},
    {RT_OP_CONV2D_BACKWARD_DATA, make_conv2d_backward_data, kFuses},
    {RT_OP_CONV2D_BACKWARD_WEIGHTS, make_conv2d_backward_weights},
};

}  // namespace

Family product_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
