// The largest logit of a row and the sum of exponentials, in one reading of the row (Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018).
#ifndef BACKENDS_GPU_ROW_SCAN_H_
#define BACKENDS_GPU_ROW_SCAN_H_

#include "backends/gpu/row_launch.h"
#include "backends/gpu/rows.h"

namespace backends::gpu {

// exp(x) for x <= 0, or NaN. A result in 16 bits has fewer digits than the instruction, whose
// relative error is about 2^-22, and whose smallest results are 0 ("PTX ISA", ex2.approx).
template <typename T>
GPU_DEVICE Compute<T> exp_for(Compute<T> x) {
#if defined(__CUDA_ARCH__)
  if constexpr (kSixteenBit<T>) {
    constexpr float kLog2E = 1.4426950408889634f;
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * kLog2E));
    return power;
  }
#elif !defined(__HIP_CPU_RT__)
  if constexpr (kSixteenBit<T>) return __expf(x);
#endif
  return exp_of(x);
}

// The larger number; NaN counts as larger.
template <typename C>
GPU_DEVICE C larger(C a, C b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (sizeof(C) == sizeof(float)) {
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
  }
#endif
  return Max::combine(a, b);
}

// The logits that a thread has seen: the largest and the sum of exp(logit - largest). A NaN is
// larger than any number. The sum of nothing, or of nothing but -infinity, is 0.
template <typename T>
struct RowScan {
  using C = Compute<T>;
  C largest = -INFINITY, sum = C(0);

  // Sets the new largest logit and returns what exponents are counted from.
  GPU_DEVICE C raise(C most) {
    const C next = larger(most, largest);
    const C base = next == C(-INFINITY) ? C(0) : next;
    sum *= exp_for<T>(largest - base);
    largest = next;
    return base;
  }
  GPU_DEVICE void add(C x) {
    const C base = raise(x);
    sum += exp_for<T>(x - base);
  }
  // Adds eight elements at a time, so that the sum is rescaled seldom.
  template <int kPacks>
  GPU_DEVICE void add(const Chunk<T, kPacks>& chunk) {
    constexpr int kTogether = 8 / kPerPack<T>;
    GPU_UNROLL
    for (int p = 0; p < kPacks; p += kTogether) {
      constexpr int kElements = 8;
      C x[kElements], most = -INFINITY;
      GPU_UNROLL
      for (int i = 0; i < kElements; ++i) {
        const int pack = p + i / kPerPack<T>;
        x[i] = pack < kPacks ? element<T>(chunk.packs[pack < kPacks ? pack : 0], i % kPerPack<T>)
                             : C(-INFINITY);
        most = larger(most, x[i]);
      }
      const C base = raise(most);
      C more = C(0);
      GPU_UNROLL
      for (int i = 0; i < kElements; ++i) more += exp_for<T>(x[i] - base);
      sum += more;
    }
  }
};

// Scans a row, and leaves in `chunk` the part of it that was read last. All threads get the result.
template <bool kWhole, typename T, int kPacks>
GPU_DEVICE RowSum<Compute<T>> scan_row(const T* row, const RowParts<T>& parts,
                                       Chunk<T, kPacks>& chunk,
                                       const Scratch<Compute<T>>& scratch) {
  using C = Compute<T>;
  RowScan<T> scan;
  const int edge = parts.edge();
  if (edge >= 0) scan.add(static_cast<C>(row[edge]));
  for_chunks<kPacks, kWhole>(parts.packs, [&](int begin) {
    chunk.load(row, parts, begin, -INFINITY);
    scan.add(chunk);
  });
  const C largest = block_reduce<Max>(scan.largest, scratch.values);
  scan.raise(largest);
  return {largest, block_reduce<Sum>(scan.sum, scratch.values)};
}

// The index of the first of the elements that equal `largest`, which scan_row has found, or of the
// first NaN if it is NaN. All threads get it.
template <bool kWhole, typename T, int kPacks>
GPU_DEVICE int first_largest(const T* row, const RowParts<T>& parts, Chunk<T, kPacks>& chunk,
                             Compute<T> largest, const Scratch<Compute<T>>& scratch) {
  using C = Compute<T>;
  int first = INT_MAX;
  const auto look = [&](C x, int j) {
    if ((x == largest || x != x) && j < first) first = j;
  };
  const int edge = parts.edge();
  if (edge >= 0) look(static_cast<C>(row[edge]), edge);
  chunk.forget(scratch.zero);
  for_chunks<kPacks, kWhole>(parts.packs, [&](int begin) {
    if constexpr (!kWhole) chunk.load(row, parts, begin, -INFINITY);
    chunk.each(parts, begin, look);
  });
  return -block_reduce<Max>(-first, scratch.indices);
}

// Writes f(x) for each x of a row whose last part lies in `chunk`. `to` may be the row itself.
template <bool kWhole, typename T, int kPacks, typename Function>
GPU_DEVICE void map_row(const T* row, T* to, const RowParts<T>& parts, Chunk<T, kPacks>& chunk,
                        Function f) {
  using C = Compute<T>;
  for_chunks<kPacks, kWhole>(parts.packs, [&](int begin) {
    if constexpr (!kWhole) chunk.load(row, parts, begin, -INFINITY);
    chunk.store(to, parts, begin, [&](C x, int, int) { return f(x); });
  });
  const int edge = parts.edge();
  if (edge >= 0) to[edge] = static_cast<T>(f(static_cast<C>(row[edge])));
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ROW_SCAN_H_
