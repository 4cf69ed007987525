// Post-operations applied by our own code to a piece of an output that was just computed.
#ifndef BACKENDS_CPU_POST_CHAIN_H_
#define BACKENDS_CPU_POST_CHAIN_H_

#include <cstdint>
#include <vector>

#include "backends/cpu/provider.h"

namespace backends::cpu {

class PostChain {
 public:
  PostChain() = default;
  // Post-operations begin .. op.post_op_count(). `channels`: length of the last dimension.
  PostChain(const Operation& op, uint32_t begin, int64_t channels);

  bool empty() const { return steps_.empty(); }
  bool has_bias() const;
  // y[0..count) are elements offset .. offset + count of the output, in its own layout; operands
  // have that layout too. A bias is only right in the canonical layout.
  void apply(float* y, int64_t offset, int64_t count, const void* const* inputs) const;

 private:
  struct Step {
    int32_t kind, function, operand;
  };
  std::vector<Step> steps_;
  int64_t channels_ = 1;
};

// Checks kinds, functions and operands of the post-operations of `op`; throws
// RT_ERROR_INVALID_ARGUMENT.
void check_post_ops(const Operation& op);

// How many, from the first, are fused if the first `done` are and PostChain applies the rest to an
// output of this layout. In a foreign layout it stops at a bias (channels are elsewhere) and at
// what does not map zero padding to zero.
uint32_t chain_prefix(const Operation& op, uint64_t output_layout, uint32_t done = 0);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_POST_CHAIN_H_
