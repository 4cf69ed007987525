// attention and its gradient. The forward saves log(sum of exp(scores)) of each row and head.
#include "backends/gpu/attention_operands.h"
#include "backends/gpu/lanes.h"
#include "backends/gpu/limits.h"

namespace backends::gpu {
namespace {

constexpr int kDeltaLanes = 8;  // threads that share a row

// delta = dy . y of each row and head. Row i of y, seen as [n * t * heads, d], belongs to head
// i % heads.
template <typename T>
GPU_KERNEL_OF(kBlock)
void delta_kernel(AttentionOperands<T> o) {
  using C = Compute<T>;
  constexpr int kVector = 16 / int{sizeof(T)};
  struct alignas(16) Vector {
    T of[kVector];
  };
  const int64_t rows = o.s.rows(), d = o.s.d;
  const int64_t own = threadIdx.x / kDeltaLanes, lane = threadIdx.x % kDeltaLanes;
  for (int64_t first = blockIdx.x; first * (kBlock / kDeltaLanes) < rows; first += gridDim.x) {
    const int64_t row = first * (kBlock / kDeltaLanes) + own;
    const T *dy = o.dy + row * d, *y = o.y + row * d;
    C sum = C(0);
    if (row < rows && o.by_vector) {
      for (int64_t i = lane * kVector; i < d; i += kDeltaLanes * kVector) {
        const auto a = *reinterpret_cast<const Vector*>(dy + i),
                   b = *reinterpret_cast<const Vector*>(y + i);
        GPU_UNROLL for (int e = 0; e < kVector; ++e) {
          sum += static_cast<C>(a.of[e]) * static_cast<C>(b.of[e]);
        }
      }
    } else if (row < rows) {
      for (int64_t i = lane; i < d; i += kDeltaLanes) {
        sum += static_cast<C>(dy[i]) * static_cast<C>(y[i]);
      }
    }
    sum = reduce_lanes<Sum, kDeltaLanes>(sum);
    const int64_t place = row / o.s.heads, head = row % o.s.heads;
    if (row < rows && lane == 0) {
      o.delta[(place / o.s.t * o.s.heads + head) * o.s.t + place % o.s.t] = sum;
    }
  }
}

template <typename T>
void queue_delta(const Launch& l, const AttentionOperands<T>& o) {
  if (o.s.rows() == 0) return;
  const auto blocks = static_cast<uint32_t>(
      std::min<int64_t>(divide_up(o.s.rows() * kDeltaLanes, kBlock), kMostBlocks));
  GPU_LAUNCH((delta_kernel<T>), dim3(blocks), dim3(kBlock), l.stream, o);
  check_launch("attention_backward");
}

AttentionShape shape_of(const Operation& op) {
  // Kernels count rows, columns and tiles of a head in 32 bits.
  const AttentionShape s = attention_shape(op);
  if (s.n > 0) expect_at_most(op, s.t * s.d, int64_t{1} << 30, "numbers of a head");
  return s;
}

template <typename T>
AttentionLaunches<T> launches_for(int64_t d) {
  if constexpr (kSixteenBit<T>) {
    if (const auto launches = mma_attention<T>(d)) return *launches;
  }
  return fma_attention<T>(d);
}

// The operands of a launch without its inputs.
template <typename T>
AttentionOperands<T> operands_of(const AttentionShape& s, const Launch& l) {
  AttentionOperands<T> o{};
  o.s = s;
  o.scale = static_cast<Compute<T>>(1.0 / std::sqrt(static_cast<double>(s.d)));
  o.by_vector = s.d * static_cast<int64_t>(sizeof(T)) % 16 == 0;
  o.result = l.output<T>(0);
  o.log_sums = static_cast<Compute<T>*>(l.saved);
  o.delta = static_cast<Compute<T>*>(l.workspace);
  return o;
}

// The bytes of y, and of a number for each row and head.
template <typename T>
struct Sizes {
  double y, row;
  explicit Sizes(const AttentionShape& s)
      : y(static_cast<double>(s.rows()) * static_cast<double>(s.d) * sizeof(T)),
        row(static_cast<double>(s.rows()) * sizeof(Compute<T>)) {}
};

// The cost of the kernels. The rows that several blocks of one head read are still in the cache and
// count once.
template <typename T>
std::vector<Work> forward_work(const AttentionShape& s, int64_t times) {
  if (s.rows() == 0) return {};
  const Sizes<T> bytes(s);
  const double n = static_cast<double>(times);
  return {{"attention", 4 * bytes.y + bytes.row, (n + 1) * s.product_flops()}};
}
// The kernels of dq, and of dk and dv, both compute the scores and dy v^T: seven products.
template <typename T>
std::vector<Work> backward_work(const AttentionShape& s, int64_t times) {
  if (s.rows() == 0) return {};
  const Sizes<T> bytes(s);
  const double reads = 4 * bytes.y + 2 * bytes.row, product = s.product_flops(),
               n = static_cast<double>(times);
  return {{"attention_backward delta", 2 * bytes.y + bytes.row, 0},
          {"attention_backward dq", reads + bytes.y, (2 * n + 1) * product},
          {"attention_backward dk dv", reads + 2 * bytes.y, (2 * n + 2) * product}};
}

Kernel make_attention(const Properties&, const Operation& op) {
  const AttentionShape s = shape_of(op);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    const AttentionLaunches<T> launches = launches_for<T>(s.d);
    Kernel kernel;
    kernel.saved_bytes = static_cast<uint64_t>(s.rows()) * sizeof(Compute<T>);
    kernel.work = forward_work<T>(s, launches.times);
    kernel.run = [s, launches](const Launch& l) {
      auto o = operands_of<T>(s, l);
      o.qkv = l.input<T>(0);
      launches.forward(l, o);
    };
    return kernel;
  });
}

Kernel make_attention_backward(const Properties&, const Operation& op) {
  const AttentionShape s = shape_of(op);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    const AttentionLaunches<T> launches = launches_for<T>(s.d);
    Kernel kernel;
    kernel.reads_saved = static_cast<uint64_t>(s.rows()) * sizeof(Compute<T>);
    kernel.workspace_bytes = kernel.reads_saved;  // delta
    kernel.work = backward_work<T>(s, launches.times);
    kernel.run = [s, launches](const Launch& l) {
      auto o = operands_of<T>(s, l);
      o.dy = l.input<T>(0);
      o.qkv = l.input<T>(1);
      o.y = l.input<T>(2);
      queue_delta(l, o);
      launches.query_gradient(l, o);
      launches.key_gradient(l, o);
    };
    return kernel;
  });
}

constexpr Entry kEntries[] = {{RT_OP_ATTENTION, make_attention},
                              {RT_OP_ATTENTION_BACKWARD, make_attention_backward}};

}  // namespace

Family attention_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
