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

// Which keys a query sees. With documents, query i sees key j only if their numbers are equal and
// not negative.
struct Mask {
  bool causal;
  int64_t window;                 // 0: no limit
  const int32_t *queries, *keys;  // numbers of documents; nullptr: there are none
};

// What dropout needs to know of a head, see plugins/operations.md.
struct Dropout {
  float factor;        // of the weights that are kept, 1 / (1 - probability); 0: no dropout
  uint32_t threshold;  // weights are kept whose random number has at least these upper 24 bits
  uint32_t key_low, key_high, head, sample;
};

// One head of one sample, and the key head that it reads. The caller owns all buffers.
struct Head {
  Rows<const float> q, k, v;
  int64_t queries, keys, width, value_width;
  float scale;  // factor of the scores
  Mask mask;
  Dropout dropout;
  // Arrays of `queries` that forward writes and backward reads: the largest score of each row, and
  // 1 / sum of exp(score - largest), which is 0 if the query sees no key. They are separate because
  // one float for the logarithm of the sum would be less exact.
  float *largest, *inverse;
  float* workspace;  // aligned to 64 bytes
};

// The operands and results of backward for one head. Heads that share a key head are done one
// after another with one workspace, in which dk and dv are added up.
struct Gradients {
  Rows<const float> dy, y;
  Rows<float> dq, dk, dv;
  bool begins, ends;  // whether it is the first, and the last, of the heads that share dk and dv
};

// `width` rounded up to a multiple of kGroup.
inline constexpr int64_t padded(int64_t width) { return (width + kGroup - 1) / kGroup * kGroup; }

// The number of floats in Head::workspace.
inline constexpr int64_t forward_workspace(int64_t width, int64_t value_width) {
  const int64_t wide = padded(width > value_width ? width : value_width);
  return 3 * kBlock * wide + 2 * (kBlock + 4) * kBlock + 3 * kBlock;
}
// The same for backward.
inline constexpr int64_t backward_workspace(int64_t keys, int64_t width, int64_t value_width) {
  const int64_t wide = padded(width > value_width ? width : value_width);
  return 6 * kBlock * wide + keys * (padded(width) + padded(value_width)) +
         (3 * kBlock + 8) * kBlock + 3 * kBlock;
}

// The kernels of one instruction set. Any thread may call them, with buffers of its own.
struct KernelTable {
  const char* name;  // "avx512", "avx2" or "generic"
  // Computes rows first .. first + kBlock - 1 of y, as far as they exist. `first` is a multiple of
  // kBlock.
  void (*forward)(const Head& head, const Rows<float>& y, int64_t first);
  // Computes dq, and dk and dv if it is the last head that shares them.
  void (*backward)(const Head& head, const Gradients& gradients);
};

}  // namespace backends::cpu::attention

#endif  // BACKENDS_CPU_ATTENTION_KERNELS_H_
