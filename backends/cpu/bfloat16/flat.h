// Pieces of arrays in bfloat16 as float32, for serial kernels.
#ifndef BACKENDS_CPU_BFLOAT16_FLAT_H_
#define BACKENDS_CPU_BFLOAT16_FLAT_H_

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/table.h"
#include "backends/cpu/native.h"

namespace backends::cpu {

// Elements that are widened at a time. A few arrays of so many floats fit the first-level cache.
inline constexpr int64_t kPiece = 2048;

// Cuts begin..end into pieces and calls body(begin of the piece, its length).
template <typename Body>
void each_piece(int64_t begin, int64_t end, Body&& body) {
  for (int64_t i = begin; i < end; i += kPiece) body(i, std::min(kPiece, end - i));
}

// The plans of operations on arrays of elements; nullptr for another operation, and for broadcasts
// other than those of the last dimensions of an operand.
std::unique_ptr<Plan> make_bfloat16_flat(const NativeContext& context, const Operation& op);
// The plans of attention and its gradient; nullptr for another operation, without a matrix unit,
// and for sequences that are too long.
std::unique_ptr<Plan> make_bfloat16_attention(const NativeContext& context, const Operation& op);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_BFLOAT16_FLAT_H_
