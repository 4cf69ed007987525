// attention, dot_product_attention and their gradients: one set of kernels. The forward saves
// log(sum of exp(scores)) of each row and head.
#include "backends/gpu/attention_operands.h"
#include "backends/gpu/lanes.h"
#include "backends/gpu/limits.h"
#include "rt/sdk/attention_operands.h"

namespace backends::gpu {
namespace {

constexpr int kDeltaLanes = 8;  // threads that share a row

// delta = dy . y of each row and head. Row i of y, seen as [n * t * heads, e], belongs to head
// i % heads.
template <typename T>
GPU_KERNEL_OF(kBlock)
void delta_kernel(AttentionOperands<T> o) {
  using C = Compute<T>;
  constexpr int kVector = 16 / int{sizeof(T)};
  struct alignas(16) Vector {
    T of[kVector];
  };
  const int64_t rows = o.s.rows(), d = o.s.e;
  const int64_t own = threadIdx.x / kDeltaLanes, lane = threadIdx.x % kDeltaLanes;
  for (int64_t first = blockIdx.x; first * (kBlock / kDeltaLanes) < rows; first += gridDim.x) {
    const int64_t row = first * (kBlock / kDeltaLanes) + own;
    const T *dy = o.dy.data + row * d, *y = o.y.data + row * d;
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

// The range of the documents of kDocumentRows queries or keys of a sample.
GPU_KERNEL_OF(kBlock)
void ranges_kernel(AttentionMask mask, AttentionShape s) {
  const int64_t ranges = mask.query_ranges + mask.key_ranges;
  for (int64_t i = global_thread(); i < s.n * ranges; i += global_threads()) {
    const int64_t range = i % ranges, of_keys = range - mask.query_ranges;
    const int32_t* from = mask.documents + i / ranges * mask.numbers;
    const int64_t first = (of_keys < 0 ? range : of_keys) * kDocumentRows;
    const int64_t rows = of_keys < 0 ? s.t : s.keys;
    if (of_keys >= 0) from += mask.first_key;
    DocumentRange found{INT32_MAX, -1};
    for (int64_t row = first; row < rows && row < first + kDocumentRows; ++row) {
      const int32_t document = from[row];
      if (document >= 0 && document < found.low) found.low = document;
      if (document > found.high) found.high = document;
    }
    mask.ranges[i] = found;
  }
}

void queue_ranges(const Launch& l, const AttentionMask& mask, const AttentionShape& s) {
  const int64_t ranges = s.n * (mask.query_ranges + mask.key_ranges);
  if (mask.documents == nullptr || ranges == 0) return;
  const auto blocks =
      static_cast<uint32_t>(std::min<int64_t>(divide_up(ranges, kBlock), kMostBlocks));
  GPU_LAUNCH(ranges_kernel, dim3(blocks), dim3(kBlock), l.stream, mask, s);
  check_launch("attention");
}

// What a plan knows of an attention.
struct Problem {
  AttentionShape s{};
  double scale = 0;
  AttentionMask mask{};  // without addresses
  bool packed = true, backward = false;

  bool masked() const { return s.window > 0 || mask.numbers > 0 || mask.drops; }
  int64_t widest() const { return std::max(s.d, s.e); }
  int64_t ranges() const {
    return mask.numbers > 0 ? s.n * (mask.query_ranges + mask.key_ranges) : 0;
  }
  // Bytes of the ranges of documents, in front of delta.
  uint64_t range_bytes() const {
    return divide_up(ranges() * static_cast<int64_t>(sizeof(DocumentRange)), 16) * 16;
  }
};

void read_mask(const rt::sdk::DotProductAttention& given, Problem& p) {
  p.mask.numbers = given.documents;
  p.mask.first_key = given.key_documents();
  p.mask.query_ranges = divide_up(given.queries, kDocumentRows);
  p.mask.key_ranges = divide_up(given.keys, kDocumentRows);
  p.mask.seed = given.seed;
  p.mask.stream = given.stream;
  p.mask.first_head = given.first_head;
  p.mask.threshold = given.threshold();
  p.mask.drops = given.probability > 0;
  p.mask.factor = 1 / (1 - given.probability);
}

Problem problem_of(const Operation& op) {
  Problem p;
  p.backward = op.is(RT_OP_ATTENTION_BACKWARD) || op.is(RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD);
  p.packed = op.is(RT_OP_ATTENTION) || op.is(RT_OP_ATTENTION_BACKWARD);
  if (p.packed) {
    p.s = attention_shape(op);
    p.scale = 1.0 / std::sqrt(static_cast<double>(p.s.d));
  } else {
    // Types and dims have been checked.
    const rt_dtype dtype = op.input(0).dtype;
    const rt::sdk::DotProductAttention given =
        p.backward ? rt::sdk::dot_product_attention_backward_shape(op, dtype)
                   : rt::sdk::dot_product_attention_shape(op, dtype);
    p.s = {given.samples,   given.queries,     given.heads,
           given.width,     given.causal,      given.keys,
           given.key_heads, given.value_width, std::min(given.window, given.keys)};
    p.scale = given.scale;
    read_mask(given, p);
  }
  // Kernels count rows, columns and tiles of a head in 32 bits.
  const int64_t numbers = std::max(p.s.t, p.s.keys) * p.widest();
  if (p.s.n > 0) expect_at_most(op, numbers, int64_t{1} << 30, "numbers of a head");
  return p;
}

template <typename T>
AttentionLaunches<T> launches_for(const Problem& p) {
  if constexpr (kSixteenBit<T>) {
    if (const auto launches = mma_attention<T>(p.widest(), p.masked())) return *launches;
  }
  return fma_attention<T>(p.widest(), p.masked());
}

// Operands of queries and of keys, and q, k or v inside qkv. T may be const.
template <typename T>
HeadsOf<T> queries(const AttentionShape& s, T* data, int64_t columns) {
  return {data, s.heads * columns, static_cast<int>(s.t), static_cast<int>(columns)};
}
template <typename T>
HeadsOf<T> keys(const AttentionShape& s, T* data, int64_t columns) {
  return {data, s.key_heads * columns, static_cast<int>(s.keys), static_cast<int>(columns)};
}
template <typename T>
HeadsOf<T> part_of(const AttentionShape& s, T* qkv, int64_t part) {
  return {qkv + part * s.c(), 3 * s.c(), static_cast<int>(s.t), static_cast<int>(s.d)};
}

// Sets q, k and v, of which the first is input `first`.
template <typename T>
void take_inputs(const Problem& p, const Launch& l, uint32_t first, AttentionOperands<T>& o) {
  if (p.packed) {
    const T* const qkv = l.input<T>(first);
    o.q = part_of(p.s, qkv, 0), o.k = part_of(p.s, qkv, 1), o.v = part_of(p.s, qkv, 2);
    return;
  }
  o.q = queries(p.s, l.input<T>(first), p.s.d);
  o.k = keys(p.s, l.input<T>(first + 1), p.s.d);
  o.v = keys(p.s, l.input<T>(first + 2), p.s.e);
}

// Sets the results: y, or dq, dk and dv.
template <typename T>
void take_outputs(const Problem& p, const Launch& l, AttentionOperands<T>& o) {
  T* const first = l.output<T>(0);
  if (!p.backward) {
    o.result = queries(p.s, first, p.s.e);
  } else if (p.packed) {
    o.dq = part_of(p.s, first, 0), o.dk = part_of(p.s, first, 1), o.dv = part_of(p.s, first, 2);
  } else {
    o.dq = queries(p.s, first, p.s.d);
    o.dk = keys(p.s, l.output<T>(1), p.s.d);
    o.dv = keys(p.s, l.output<T>(2), p.s.e);
  }
}

template <typename T>
AttentionOperands<T> operands_of(const Problem& p, const Launch& l) {
  AttentionOperands<T> o{};
  o.s = p.s;
  o.scale = static_cast<Compute<T>>(p.scale);
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  o.by_vector = p.s.d * kBytes % 16 == 0 && p.s.e * kBytes % 16 == 0;
  take_inputs(p, l, p.backward ? 1 : 0, o);
  take_outputs(p, l, o);
  if (p.backward) {
    o.dy = queries(p.s, l.input<T>(0), p.s.e);
    o.y = queries(p.s, l.input<T>(p.packed ? 2 : 4), p.s.e);
  }
  o.log_sums = static_cast<Compute<T>*>(l.saved);
  auto* const memory = static_cast<char*>(l.workspace);
  if (p.backward) o.delta = reinterpret_cast<Compute<T>*>(memory + p.range_bytes());
  o.mask = p.mask;
  const uint32_t optional = p.backward ? 5 : 3;
  if (p.mask.drops) {
    o.mask.step = l.input<int64_t>(optional);
    o.mask.base = l.input<int64_t>(optional + 1);
  }
  if (p.mask.numbers > 0) {
    o.mask.documents = l.input<int32_t>(optional + 2);
    o.mask.ranges = reinterpret_cast<DocumentRange*>(memory);
  }
  return o;
}

// The bytes of operands of the queries and of the keys, and of a number for each row and head.
template <typename T>
struct Sizes {
  double q, y, k, v, row;
  explicit Sizes(const AttentionShape& s) {
    const auto of = [](int64_t rows, int64_t columns) {
      return static_cast<double>(rows) * static_cast<double>(columns) * sizeof(T);
    };
    const int64_t shared = s.n * s.key_heads * s.keys;
    q = of(s.rows(), s.d), y = of(s.rows(), s.e), k = of(shared, s.d), v = of(shared, s.e);
    row = static_cast<double>(s.rows()) * sizeof(Compute<T>);
  }
};

// The cost of the kernels. The rows that several blocks of one head read are still in the cache and
// count once.
void add_ranges(const Problem& p, std::vector<Work>& work) {
  if (p.ranges() == 0) return;
  const double numbers = static_cast<double>(p.s.n * p.mask.numbers);
  work.push_back({"attention documents", numbers * sizeof(int32_t), 0});
}
template <typename T>
std::vector<Work> forward_work(const Problem& p, int64_t times) {
  if (p.s.rows() == 0) return {};
  const Sizes<T> bytes(p.s);
  const double n = static_cast<double>(times);
  std::vector<Work> work;
  add_ranges(p, work);
  work.push_back({"attention", bytes.q + bytes.k + bytes.v + bytes.y + bytes.row,
                  (n + 1) * p.s.product_flops()});
  return work;
}
// The kernels of dq, and of dk and dv, both compute the scores and dy v^T: seven products.
template <typename T>
std::vector<Work> backward_work(const Problem& p, int64_t times) {
  if (p.s.rows() == 0) return {};
  const Sizes<T> bytes(p.s);
  const double reads = bytes.q + bytes.k + bytes.v + bytes.y + 2 * bytes.row,
               product = p.s.product_flops(), n = static_cast<double>(times);
  std::vector<Work> work;
  add_ranges(p, work);
  work.push_back({"attention_backward delta", 2 * bytes.y + bytes.row, 0});
  work.push_back({"attention_backward dq", reads + bytes.q, (2 * n + 1) * product});
  work.push_back({"attention_backward dk dv", reads + bytes.k + bytes.v, (2 * n + 2) * product});
  return work;
}

Kernel make_attention(const Properties&, const Operation& op) {
  const Problem p = problem_of(op);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    const AttentionLaunches<T> launches = launches_for<T>(p);
    Kernel kernel;
    kernel.saved_bytes = static_cast<uint64_t>(p.s.rows()) * sizeof(Compute<T>);
    kernel.workspace_bytes = p.range_bytes();
    kernel.work = forward_work<T>(p, launches.times);
    kernel.run = [p, launches](const Launch& l) {
      const auto o = operands_of<T>(p, l);
      queue_ranges(l, o.mask, o.s);
      launches.forward(l, o);
    };
    return kernel;
  });
}

Kernel make_attention_backward(const Properties&, const Operation& op) {
  const Problem p = problem_of(op);
  return for_floating(op.input(0).dtype, [&]<typename T>() {
    const AttentionLaunches<T> launches = launches_for<T>(p);
    Kernel kernel;
    kernel.reads_saved = static_cast<uint64_t>(p.s.rows()) * sizeof(Compute<T>);
    kernel.workspace_bytes = p.range_bytes() + kernel.reads_saved;  // delta
    kernel.work = backward_work<T>(p, launches.times);
    kernel.run = [p, launches](const Launch& l) {
      const auto o = operands_of<T>(p, l);
      queue_ranges(l, o.mask, o.s);
      queue_delta(l, o);
      launches.query_gradient(l, o);
      launches.key_gradient(l, o);
    };
    return kernel;
  });
}

constexpr Entry kEntries[] = {{RT_OP_ATTENTION, make_attention},
                              {RT_OP_ATTENTION_BACKWARD, make_attention_backward},
                              {RT_OP_DOT_PRODUCT_ATTENTION, make_attention},
                              {RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD, make_attention_backward}};

}  // namespace

Family attention_family() { return {kEntries, std::size(kEntries)}; }

}  // namespace backends::gpu
