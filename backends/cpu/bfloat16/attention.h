// Attention on bfloat16 by the matrix unit. Scores and probabilities are float32 while they are
// computed; products read probabilities and gradients of scores rounded to bfloat16.
#ifndef BACKENDS_CPU_BFLOAT16_ATTENTION_H_
#define BACKENDS_CPU_BFLOAT16_ATTENTION_H_

#include <cstdint>

#include "backends/cpu/bfloat16/matrix_unit.h"
#include "backends/cpu/kernels/table.h"

namespace backends::cpu::bfloat16 {

// The longest sequence: backward keeps two matrices [length][length] of one head for each thread.
inline constexpr int64_t kLongestSequence = 2048;

// The operands are qkv [samples][length][3 * heads * width] and y [samples][length][heads * width].
struct AttentionShape {
  int64_t samples, length, heads, width;
  bool causal;
};

// Attention of one shape. Immutable: forward and backward may run in several threads at once with
// different buffers and allocate nothing. All buffers are aligned to 64 bytes. One thread does a
// whole head of a sample, so the result has the same bits for any number of threads.
class Attention {
 public:
  // `threads` >= 1. `unit` and `kernel` outlive this object.
  Attention(const AttentionShape& shape, int threads, const MatrixUnit& unit,
            const kernels::Table& kernel)
      : shape_(shape), threads_(threads), unit_(&unit), kernel_(&kernel) {}

  // Bytes of the buffers that forward and backward take.
  uint64_t saved_bytes() const;
  uint64_t workspace_bytes(bool backward) const;

  // Writes y, and to `saved` what backward needs: the largest product of each row and head, and the
  // inverse of the sum of the exponentials.
  void forward(const uint16_t* qkv, uint16_t* y, float* saved, void* workspace) const;
  // Writes the gradient dqkv of qkv, given the gradient dy of y and the operands and results of
  // forward.
  void backward(const uint16_t* dy, const uint16_t* qkv, const uint16_t* y, const float* saved,
                uint16_t* dqkv, void* workspace) const;

 private:
  struct Head;
  struct Memory;
  Head head(const uint16_t* qkv, const uint16_t* y, int64_t index) const;
  Memory memory(char* workspace, bool backward) const;
  int64_t visible(int64_t row) const { return shape_.causal ? row + 1 : shape_.length; }

  // scores become exp(scale * (score - largest)).
  void exponentials(float* scores, float largest, float scale, int64_t count) const;
  void forward_rows(const Head& head, const Memory& memory, int64_t row, float* saved,
                    uint16_t* y) const;
  void backward_rows(const Head& head, const Memory& memory, int64_t row, const float* saved,
                     const uint16_t* dy, const uint16_t* y, uint16_t* dq) const;
  void backward_keys(const Head& head, const Memory& memory, int64_t key, uint16_t* dk,
                     uint16_t* dv) const;
  // Multiplies a packed tile of rows by packed panels of `columns` columns into memory `c`.
  void multiply(const char* left, const char* right, int64_t panel_bytes, int64_t depth,
                int64_t columns, float* c, int64_t c_row) const;
  // Writes the products of a packed tile and a packed matrix [..][width] to rows of an operand.
  void multiply_into(const char* left, const char* right, int64_t depth, const Memory& memory,
                     int64_t rows, const float* factors, int64_t factor_step, uint16_t* to,
                     int64_t to_row) const;

  AttentionShape shape_;
  int threads_;
  const MatrixUnit* unit_;
  const kernels::Table* kernel_;
};

}  // namespace backends::cpu::bfloat16

#endif  // BACKENDS_CPU_BFLOAT16_ATTENTION_H_
