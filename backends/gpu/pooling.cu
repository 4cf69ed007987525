// max_pool2d, avg_pool2d, global_avg_pool and their gradients, for x [N,H,W,C] and y [N,P,Q,C].
// Gradients gather: the thread of a pixel of dx adds up the contributions of all windows that
// contain the pixel. So no two threads write to one element, and the result has the same bits every
// time.
#include "backends/gpu/divisor.h"
#include "backends/gpu/fixed_posts.h"
#include "backends/gpu/limits.h"
#include "backends/gpu/work.h"
#include "rt/sdk/window.h"

namespace backends::gpu {
namespace {

struct PoolShape {
  int64_t n, h, w, c, p, q;
  int64_t kh, kw, stride_h, stride_w, pad_top, pad_left;
  bool max, count_include_pad;
  int64_t image() const { return n * h * w * c; }
  int64_t result() const { return n * p * q * c; }
};

// Throws RT_ERROR_UNSUPPORTED if the pixels of an image are more than the winners of max pooling
// count.
PoolShape shape_of(const Operation& op, const rt_tensor_desc& x, const rt_tensor_desc& y) {
  const rt::sdk::Window window = rt::sdk::pooling_window(op);
  PoolShape s{};
  s.n = x.dims[0], s.h = x.dims[1], s.w = x.dims[2], s.c = x.dims[3], s.p = y.dims[1],
  s.q = y.dims[2];
  s.kh = window.kernel_h, s.kw = window.kernel_w, s.stride_h = window.stride_h,
  s.stride_w = window.stride_w;
  s.pad_top = window.pad_top, s.pad_left = window.pad_left;
  s.max = op.is(RT_OP_MAX_POOL2D) || op.is(RT_OP_MAX_POOL2D_BACKWARD);
  s.count_include_pad = op.integer(RT_ATTR_COUNT_INCLUDE_PAD, 1) != 0;
  if (s.max) expect_at_most(op, s.h * s.w, INT32_MAX, "pixels of an image");
  return s;
}

// The rows and columns of a window that lie inside the image.
struct Inside {
  int64_t row_begin, row_end, column_begin, column_end;
  GPU_DEVICE static Inside of(const PoolShape& s, int64_t p, int64_t q) {
    const int64_t row = p * s.stride_h - s.pad_top, column = q * s.stride_w - s.pad_left;
    return {row > 0 ? row : 0, row + s.kh < s.h ? row + s.kh : s.h, column > 0 ? column : 0,
            column + s.kw < s.w ? column + s.kw : s.w};
  }
  GPU_DEVICE int64_t divisor(const PoolShape& s) const {
    return s.count_include_pad ? s.kh * s.kw : (row_end - row_begin) * (column_end - column_begin);
  }
};

// The image, the row, the column and the channel of an element of [N,height,width,C].
struct Position {
  int64_t n, row, column, c;
};
struct Shape4 {
  Divisor height, width, channels;
  GPU_DEVICE Position at(int64_t i) const {
    const int64_t pixel = channels.quotient(i), line = width.quotient(pixel),
                  n = height.quotient(line);
    return {n, line - n * height.value(), pixel - line * width.value(),
            i - pixel * channels.value()};
  }
};

// The base of the functions here. They compute vectors of channels, whose number is a multiple of
// the vector, or single channels, and load what they need in store().
template <typename T, typename Posts>
struct PoolBase : WholeVectors {
  static constexpr int kAhead = 1;
  Shape4 result;
  Posts posts;
  T* y;
  PoolBase(const Launch& l, int64_t height, int64_t width, int64_t channels, Posts list)
      : result{Divisor(height), Divisor(width), Divisor(channels)},
        posts(list),
        y(l.output<T>(0)) {}

  template <int N>
  using Loaded = typename Posts::template Loaded<N>;
  template <int N>
  GPU_DEVICE void load(int64_t i, Loaded<N>& loaded) const {
    posts.template load<N>(i, loaded);
  }
  template <int N>
  GPU_DEVICE void finish(int64_t i, int64_t c, const Loaded<N>& loaded,
                         Compute<T> (&values)[N]) const {
    posts.template apply<N>(gpu::Place{i, c, result.channels.value()}, loaded, values);
    gpu::store<N>(y + i, narrow<T, N>(values));
  }
};

// Max pooling saves the pixel of each winner, row * W + column, as int32 [N,P,Q,C].
template <typename T, typename Posts>
struct MaxPool : PoolBase<T, Posts> {
  using C = Compute<T>;
  using Base = PoolBase<T, Posts>;
  const T* x;
  int32_t* winners;
  PoolShape s;
  MaxPool(const Launch& l, const PoolShape& shape, Posts list)
      : Base(l, shape.p, shape.q, shape.c, list),
        x(l.input<T>(0)),
        winners(static_cast<int32_t*>(l.saved)),
        s(shape) {}
  template <int N>
  GPU_DEVICE void store(int64_t i, const typename Base::template Loaded<N>& loaded, NoState) const {
    const Position at = this->result.at(i);
    const Inside in = Inside::of(s, at.row, at.column);
    const T* image = x + at.n * s.h * s.w * s.c + at.c;
    const auto first = static_cast<int32_t>(in.row_begin * s.w + in.column_begin);
    C best[N];
    widen<T, N>(gpu::load<N>(image + first * s.c), best);
    Pack<int32_t, N> winner;
    GPU_UNROLL
    for (int k = 0; k < N; ++k) winner.value[k] = first;
    for (int64_t row = in.row_begin; row < in.row_end; ++row) {
      for (int64_t column = in.column_begin; column < in.column_end; ++column) {
        const int64_t pixel = row * s.w + column;
        C value[N];
        widen<T, N>(gpu::load<N>(image + pixel * s.c), value);
        GPU_UNROLL
        for (int k = 0; k < N; ++k) {
          if (!(value[k] > best[k] || value[k] != value[k])) continue;
          best[k] = value[k];
          winner.value[k] = static_cast<int32_t>(pixel);
        }
      }
    }
    gpu::store<N>(winners + i, winner);
    this->template finish<N>(i, at.c, loaded, best);
  }
};

template <typename T, typename Posts>
struct AveragePool : PoolBase<T, Posts> {
  using C = Compute<T>;
  using Base = PoolBase<T, Posts>;
  const T* x;
  PoolShape s;
  AveragePool(const Launch& l, const PoolShape& shape, Posts list)
      : Base(l, shape.p, shape.q, shape.c, list), x(l.input<T>(0)), s(shape) {}
  template <int N>
  GPU_DEVICE void store(int64_t i, const typename Base::template Loaded<N>& loaded, NoState) const {
    const Position at = this->result.at(i);
    const Inside in = Inside::of(s, at.row, at.column);
    const T* image = x + at.n * s.h * s.w * s.c + at.c;
    C sums[N] = {};
    for (int64_t row = in.row_begin; row < in.row_end; ++row) {
      for (int64_t column = in.column_begin; column < in.column_end; ++column) {
        C value[N];
        widen<T, N>(gpu::load<N>(image + (row * s.w + column) * s.c), value);
        GPU_UNROLL
        for (int k = 0; k < N; ++k) sums[k] += value[k];
      }
    }
    GPU_UNROLL
    for (int k = 0; k < N; ++k) sums[k] /= static_cast<C>(in.divisor(s));
    this->template finish<N>(i, at.c, loaded, sums);
  }
};

template <typename T, bool kMax, typename Posts>
struct PoolBackward : PoolBase<T, Posts> {
  using C = Compute<T>;
  using Base = PoolBase<T, Posts>;
  const T* dy;
  const int32_t* winners;
  PoolShape s;
  Divisor stride_h, stride_w;
  PoolBackward(const Launch& l, const PoolShape& shape, Posts list)
      : Base(l, shape.h, shape.w, shape.c, list),
        dy(l.input<T>(0)),
        winners(static_cast<const int32_t*>(l.saved)),
        s(shape),
        stride_h(shape.stride_h),
        stride_w(shape.stride_w) {}
  template <int N>
  GPU_DEVICE void store(int64_t i, const typename Base::template Loaded<N>& loaded, NoState) const {
    const Position at = this->result.at(i);
    // The windows p for which p stride - pad <= row < p stride - pad + kernel.
    const int64_t top = at.row + s.pad_top - s.kh + 1, left = at.column + s.pad_left - s.kw + 1;
    const int64_t p0 = top <= 0 ? 0 : stride_h.quotient(top + s.stride_h - 1);
    const int64_t q0 = left <= 0 ? 0 : stride_w.quotient(left + s.stride_w - 1);
    C sums[N] = {};
    for (int64_t p = p0; p < s.p && p * s.stride_h <= at.row + s.pad_top; ++p) {
      for (int64_t q = q0; q < s.q && q * s.stride_w <= at.column + s.pad_left; ++q) {
        add<N>(p, q, at, sums);
      }
    }
    this->template finish<N>(i, at.c, loaded, sums);
  }

 private:
  // Adds what the window (p, q) contributes.
  template <int N>
  GPU_DEVICE void add(int64_t p, int64_t q, const Position& at, C (&sums)[N]) const {
    const int64_t from = ((at.n * s.p + p) * s.q + q) * s.c + at.c;
    C value[N];
    widen<T, N>(gpu::load<N>(dy + from), value);
    if constexpr (kMax) {
      const auto pixel = static_cast<int32_t>(at.row * s.w + at.column);
      const Pack<int32_t, N> winner = gpu::load<N>(winners + from);
      GPU_UNROLL
      for (int k = 0; k < N; ++k) {
        if (winner.value[k] == pixel) sums[k] += value[k];
      }
    } else {
      const C divisor = static_cast<C>(Inside::of(s, p, q).divisor(s));
      GPU_UNROLL
      for (int k = 0; k < N; ++k) sums[k] += value[k] / divisor;
    }
  }
};

template <typename T, typename Posts>
struct GlobalPool : PoolBase<T, Posts> {
  using C = Compute<T>;
  using Base = PoolBase<T, Posts>;
  static constexpr int kLoads = 4;  // pixels that are loaded before the first is added
  const T* x;
  int64_t pixels;
  GlobalPool(const Launch& l, const PoolShape& shape, Posts list)
      : Base(l, 1, 1, shape.c, list), x(l.input<T>(0)), pixels(shape.h * shape.w) {}
  template <int N>
  GPU_DEVICE void store(int64_t i, const typename Base::template Loaded<N>& loaded, NoState) const {
    const Position at = this->result.at(i);
    const int64_t channels = this->result.channels.value();
    const T* image = x + at.n * pixels * channels + at.c;
    C sums[N] = {};
    for (int64_t pixel = 0; pixel < pixels; pixel += kLoads) {
      Pack<T, N> several[kLoads] = {};
      GPU_UNROLL
      for (int a = 0; a < kLoads; ++a) {
        if (pixel + a < pixels) several[a] = gpu::load<N>(image + (pixel + a) * channels);
      }
      GPU_UNROLL
      for (int a = 0; a < kLoads; ++a) {
        if (pixel + a >= pixels) continue;
        GPU_UNROLL
        for (int k = 0; k < N; ++k) sums[k] += static_cast<C>(several[a].value[k]);
      }
    }
    GPU_UNROLL
    for (int k = 0; k < N; ++k) sums[k] /= static_cast<C>(pixels);
    this->template finish<N>(i, at.c, loaded, sums);
  }
};

template <typename T, typename Posts>
struct GlobalPoolBackward : PoolBase<T, Posts> {
  using C = Compute<T>;
  using Base = PoolBase<T, Posts>;
  const T* dy;
  int64_t pixels;
  GlobalPoolBackward(const Launch& l, const PoolShape& shape, Posts list)
      : Base(l, 1, shape.h * shape.w, shape.c, list),
        dy(l.input<T>(0)),
        pixels(shape.h * shape.w) {}
  template <int N>
  GPU_DEVICE void store(int64_t i, const typename Base::template Loaded<N>& loaded, NoState) const {
    const Position at = this->result.at(i);
    C values[N];
    widen<T, N>(gpu::load<N>(dy + at.n * this->result.channels.value() + at.c), values);
    GPU_UNROLL
    for (int k = 0; k < N; ++k) values[k] /= static_cast<C>(pixels);
    this->template finish<N>(i, at.c, loaded, values);
  }
};

// The post-operation that follows in the models of configs/: relu, or its gradient if the pooling
// is a gradient. Float64 is for tests.
template <typename T, int32_t kKind>
struct AfterPool {
  using Lists = PostLists<FixedPosts<T, Fixed<kKind, RT_ACTIVATION_RELU>>>;
};
template <int32_t kKind>
struct AfterPool<double, kKind> {
  using Lists = PostLists<>;
};

// The functions as templates of the post-operations alone.
template <typename T>
struct Functions {
  template <typename Posts>
  using Max = MaxPool<T, Posts>;
  template <typename Posts>
  using MaxBackward = PoolBackward<T, true, Posts>;
  template <typename Posts>
  using Average = AveragePool<T, Posts>;
  template <typename Posts>
  using AverageBackward = PoolBackward<T, false, Posts>;
  template <typename Posts>
  using Global = GlobalPool<T, Posts>;
  template <typename Posts>
  using GlobalBackward = GlobalPoolBackward<T, Posts>;
};

// Makes the kernel that computes Function<Posts> for the `count` elements of the result: in vectors
// of channels if there are no post-operations or those of AfterPool, else in single channels.
template <typename T, template <typename> typename Function, int32_t kAfter>
Kernel pool_kernel(const Operation& op, const PoolShape& s, int64_t count) {
  Kernel kernel;
  kernel.run = [=, post = PostPlan(op), name = std::string(op.name())](const Launch& l) {
    constexpr int N = kVector<T>;
    const PostOps bound = post.bind(l);
    const bool in_vectors =
        s.c % N == 0 && aligned(bound) && aligned({l.inputs[0], l.outputs[0], l.saved});
    const auto launch = [&]<typename Posts>(const Posts& posts) {
      if constexpr (std::is_same_v<Posts, AnyPosts<T>>) {
        for_vectors<1>(l, count, true, Function<Posts>(l, s, posts), name.c_str());
      } else {
        for_vectors<N>(l, count, true, Function<Posts>(l, s, posts), name.c_str());
      }
    };
    if (!in_vectors) return launch(AnyPosts<T>{bound});
    if (post.empty()) return launch(NoPosts{});
    with_posts<T>(bound, typename AfterPool<T, kAfter>::Lists{}, launch);
  };
  return kernel;
}

// The one kernel of an operation that writes or reads `saved` bytes beside its operands.
std::vector<Work> work_with_saved(const Operation& op, uint64_t saved) {
  if (saved == 0) return work_unless_empty(op, 0);
  Work work{op.desc().name, static_cast<double>(saved)};
  for (uint32_t i = 0; i < op.input_count(); ++i) work.bytes += bytes_of(op.input(i));
  for (uint32_t i = 0; i < op.output_count(); ++i) work.bytes += bytes_of(op.output(i));
  return {work};
}

Kernel make_pool(const Properties&, const Operation& op) {
  const PoolShape s = shape_of(op, op.input(0), op.output(0));
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using F = Functions<T>;
    if (!s.max) {
      Kernel kernel = pool_kernel<T, F::template Average, RT_POST_ACTIVATION>(op, s, s.result());
      kernel.work = work_unless_empty(op, s.result());
      return kernel;
    }
    Kernel kernel = pool_kernel<T, F::template Max, RT_POST_ACTIVATION>(op, s, s.result());
    kernel.saved_bytes = static_cast<uint64_t>(s.result()) * sizeof(int32_t);
    kernel.work = work_with_saved(op, kernel.saved_bytes);
    return kernel;
  });
}

Kernel make_pool_backward(const Properties&, const Operation& op) {
  constexpr int32_t kAfter = RT_POST_ACTIVATION_BACKWARD;
  const PoolShape s = shape_of(op, op.output(0), op.input(0));
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    using F = Functions<T>;
    if (!s.max) {
      Kernel kernel = pool_kernel<T, F::template AverageBackward, kAfter>(op, s, s.image());
      kernel.work = work_unless_empty(op, s.image());
      return kernel;
    }
    Kernel kernel = pool_kernel<T, F::template MaxBackward, kAfter>(op, s, s.image());
    kernel.reads_saved = static_cast<uint64_t>(s.result()) * sizeof(int32_t);
    kernel.work = work_with_saved(op, kernel.reads_saved);
    return kernel;
  });
}

Kernel make_global_pool(const Properties&, const Operation& op) {
  const bool backward = op.is(RT_OP_GLOBAL_AVG_POOL_BACKWARD);
  const rt_tensor_desc& image = backward ? op.output(0) : op.input(0);
  PoolShape s{};
  s.n = image.dims[0], s.h = image.dims[1], s.w = image.dims[2], s.c = image.dims[3];
  const int64_t count = backward ? s.image() : s.n * s.c;
  return for_floating(image.dtype, [&]<typename T>() {
    using F = Functions<T>;
    Kernel kernel =
        backward
            ? pool_kernel<T, F::template GlobalBackward, RT_POST_ACTIVATION_BACKWARD>(op, s, count)
            : pool_kernel<T, F::template Global, RT_POST_ACTIVATION>(op, s, count);
    kernel.work = work_unless_empty(op, count);
    return kernel;
  });
}

constexpr Entry kEntries[] = {
    {RT_OP_MAX_POOL2D, make_pool, kFuses},
    {RT_OP_MAX_POOL2D_BACKWARD, make_pool_backward, kFuses},
    {RT_OP_AVG_POOL2D, make_pool, kFuses},
    {RT_OP_AVG_POOL2D_BACKWARD, make_pool_backward, kFuses},
    {RT_OP_GLOBAL_AVG_POOL, make_global_pool, kFuses},
    {RT_OP_GLOBAL_AVG_POOL_BACKWARD, make_global_pool, kFuses},
};

}  // namespace

Family pooling_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
