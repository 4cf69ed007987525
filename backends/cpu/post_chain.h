// Post-operations applied by our own code to a piece of an output that was just computed.
#ifndef BACKENDS_CPU_POST_CHAIN_H_
#define BACKENDS_CPU_POST_CHAIN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/kernels/table.h"
#include "backends/cpu/provider.h"

namespace backends::cpu {

class PostChain {
 public:
  PostChain() = default;
  // Post-operations begin .. op.post_op_count(), which must be within chain_prefix. `order`: of
  // output 0; empty: its layout has channels in no such order.
  PostChain(const Operation& op, const std::optional<ChannelOrder>& order, uint32_t begin = 0);

  bool empty() const { return steps_.empty(); }
  // y[0..count) are elements offset .. offset + count of the output, in its own layout; operands
  // have that layout too. Padded channels that were zero stay zero.
  void apply(const kernels::Table& kernel, float* y, int64_t offset, int64_t count,
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
  bool fills_padding_ = false;  // a step makes something else of zero
};

// Checks kinds, functions and operands of the post-operations of `op`; throws
// RT_ERROR_INVALID_ARGUMENT.
void check_post_ops(const Operation& op);

// How many, from the first, are fused if the first `done` are and PostChain applies the rest to an
// output of this order. Where the order is not known it stops at a bias (channels are elsewhere)
// and at what does not map zero padding to zero.
uint32_t chain_prefix(const Operation& op, const std::optional<ChannelOrder>& order,
                      uint32_t done = 0);

// Throws RT_ERROR_UNSUPPORTED if not all post-operations of `op` are among the first `fused`.
void check_prefix(const Operation& op, uint32_t fused);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_POST_CHAIN_H_
