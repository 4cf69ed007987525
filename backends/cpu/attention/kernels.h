// The inner kernels of attention; there is one table for each instruction set. Each kernel works on
// one head of one sample in one thread, and calls nothing outside kernels.inc.
#ifndef BACKENDS_CPU_ATTENTION_KERNELS_H_
#define BACKENDS_CPU_ATTENTION_KERNELS_H_

#include <cstdint>

namespace backends::cpu::attention {

inline constexpr int64_t kGroup = 16;  // packed rows are padded to a multiple of this
inline constexpr int64_t kBlock = 64;  // queries (and keys) that are processed together

// Rows [length][width] of floats that begin `step` floats apart.
template <typename T>
struct Rows {
  T* data;
  int64_t step;
  T* at(int64_t row) const { return data + row * step; }
};

// One head of one sample. The caller owns all buffers.
struct Head {
  Rows<const float> q, k, v;
  int64_t length, width;
  bool causal;
  float scale;  // factor of the scores, 1 / sqrt(width)
  // Arrays of `length` that forward writes and backward reads: the largest score of each row, and 1
  // / sum of exp(score - largest). They are separate because one float for the logarithm of the sum
  // would be less exact.
  float *largest, *inverse;
  float* workspace;  // aligned to 64 bytes
};

// The operands and results of backward for one head.
struct Gradients {
  Rows<const float> dy, y;
  Rows<float> dq, dk, dv;
};

// `width` rounded up to a multiple of kGroup.
inline constexpr int64_t padded(int64_t width) { return (width + kGroup - 1) / kGroup * kGroup; }

// The number of floats in Head::workspace.
inline constexpr int64_t forward_workspace(int64_t width) {
  return 3 * kBlock * padded(width) + kBlock * kBlock + 3 * kBlock;
}
// The same for backward.
inline constexpr int64_t backward_workspace(int64_t length, int64_t width) {
  return (6 * kBlock + 2 * length) * padded(width) + 2 * kBlock * kBlock + 3 * kBlock;
}

// The kernels of one instruction set. Any thread may call them, with buffers of its own.
struct KernelTable {
  const char* name;  // "avx512", "avx2" or "generic"
  // Computes rows first .. first + kBlock - 1 of y, as far as they exist. `first` is a multiple of
  // kBlock.
  void (*forward)(const Head& head, const Rows<float>& y, int64_t first);
  // Computes the gradients of all rows.
  void (*backward)(const Head& head, const Gradients& gradients);
};

}  // namespace backends::cpu::attention

#endif  // BACKENDS_CPU_ATTENTION_KERNELS_H_
