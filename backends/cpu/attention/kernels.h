// The inner kernels of attention, one table for each instruction set. Each works on one head of one
// sample in one thread, and calls nothing.
#ifndef BACKENDS_CPU_ATTENTION_KERNELS_H_
#define BACKENDS_CPU_ATTENTION_KERNELS_H_

#include <cstdint>

namespace backends::cpu::attention {

inline constexpr int64_t kGroup = 16;  // columns come in whole groups
inline constexpr int64_t kBlock = 64;  // queries and keys that are worked on together

// Rows [length][width] of floats, `step` apart.
template <typename T>
struct Rows {
  T* data;
  int64_t step;
  T* at(int64_t row) const { return data + row * step; }
};

struct Head {
  Rows<const float> q, k, v;
  int64_t length, width;
  bool causal;
  float scale;  // of the scores
  // [length] each, written by forward, read by backward: the largest score of the row, and 1 / sum
  // of exp(score - largest). A float holds the logarithm of the sum less exactly.
  float *largest, *inverse;
  float* workspace;  // aligned to 64 bytes
};

struct Gradients {
  Rows<const float> dy, y;
  Rows<float> dq, dk, dv;
};

inline constexpr int64_t padded(int64_t width) { return (width + kGroup - 1) / kGroup * kGroup; }

// Floats of Head::workspace.
inline constexpr int64_t forward_workspace(int64_t width) {
  return 3 * kBlock * padded(width) + kBlock * kBlock + 3 * kBlock;
}
inline constexpr int64_t backward_workspace(int64_t length, int64_t width) {
  return (6 * kBlock + 2 * length) * padded(width) + 2 * kBlock * kBlock + 3 * kBlock;
}

struct KernelTable {
  const char* name;  // "avx512", "avx2", "generic"
  // Rows first .. first + kBlock - 1 of y, those that exist; first: a multiple of kBlock.
  void (*forward)(const Head& head, const Rows<float>& y, int64_t first);
  void (*backward)(const Head& head, const Gradients& gradients);
};

}  // namespace backends::cpu::attention

#endif  // BACKENDS_CPU_ATTENTION_KERNELS_H_
