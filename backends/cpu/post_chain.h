// Applies post-operations to a range of an output just after it was computed, while it is in the
// cache.
#ifndef BACKENDS_CPU_POST_CHAIN_H_
#define BACKENDS_CPU_POST_CHAIN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/kernels/table.h"
#include "backends/cpu/provider.h"

namespace backends::cpu {

// Rows and columns of a matrix.
struct Rectangle {
  int64_t row, rows, column, columns;
};

// Immutable, so it may be used by several threads at once.
class PostChain {
 public:
  PostChain() = default;
  // Takes post-operations `begin` to op.post_op_count(), which must be within chain_prefix. `order`
  // is that of output 0; it is empty if the channels of the output's layout do not follow a
  // ChannelOrder.
  PostChain(const Operation& op, const std::optional<ChannelOrder>& order, uint32_t begin = 0);

  // True if there is nothing to apply.
  bool empty() const { return steps_.empty(); }
  // Applies all steps to y[0..count), which are the elements offset .. offset + count of the output
  // in its own layout. `inputs` are the inputs of the launch; residuals have the layout of the
  // output. Padded channels that were zero stay zero.
  void apply(const kernels::Table& kernel, float* y, int64_t offset, int64_t count,
             const void* const* inputs) const;
  // As apply, to a rectangle of an output whose rows have `row_length` elements; y is its first
  // one.
  void apply_to_rectangle(const kernels::Table& kernel, float* y, int64_t row_length,
                          const Rectangle& part, const void* const* inputs) const;
  // As apply, for an output in bfloat16 in the canonical layout, whose operands are in bfloat16
  // too: to its elements, which are rounded once, and to values of it that are not rounded yet.
  void apply_to_narrow(const kernels::Table& kernel, uint16_t* y, int64_t offset, int64_t count,
                       const void* const* inputs) const;
  void apply_to_wide(const kernels::Table& kernel, float* values, int64_t offset, int64_t count,
                     const void* const* inputs) const;

 private:
  struct Step {
    int32_t kind, function, operand;
  };
  void add_bias(const kernels::Table& kernel, float* y, const float* bias, int64_t offset,
                int64_t count) const;
  void clear_padding(float* y, int64_t offset, int64_t count) const;

  std::vector<Step> steps_;
  ChannelOrder order_;
  bool fills_padding_ = false;  // a step maps zero to another value, so padding has to be cleared
};

// Checks kinds, functions and operands of the post-operations of `op`. Throws
// RT_ERROR_INVALID_ARGUMENT.
void check_post_ops(const Operation& op);

// The number of post-operations, counted from the first, that are fused if something else does the
// first `done` and PostChain applies the rest to an output of this order. If the order is not
// known, the count stops at a bias, whose channels cannot be found, and at an activation that does
// not map zero to zero.
uint32_t chain_prefix(const Operation& op, const std::optional<ChannelOrder>& order,
                      uint32_t done = 0);

// Whether post-operations `begin` to the last give the same numbers before and after output 0 is
// rounded to bfloat16, as relu does.
bool commutes_with_rounding(const Operation& op, uint32_t begin);

// Throws RT_ERROR_UNSUPPORTED if `op` has more than `fused` post-operations.
void check_prefix(const Operation& op, uint32_t fused);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_POST_CHAIN_H_
