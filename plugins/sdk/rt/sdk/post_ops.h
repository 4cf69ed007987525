// Which post-operations exist, and descriptions with only the first of them.
#ifndef RT_SDK_POST_OPS_H_
#define RT_SDK_POST_OPS_H_

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace rt::sdk {

// The functions (RT_ACTIVATION_*) of `activation` that neither activation_backward nor
// post-operations have; see plugins/operations.md, "Element by element".
inline constexpr int32_t kForwardOnly[] = {
    RT_ACTIVATION_EXP, RT_ACTIVATION_LOG, RT_ACTIVATION_SQRT, RT_ACTIVATION_RECIPROCAL,
    RT_ACTIVATION_SIN, RT_ACTIVATION_COS, RT_ACTIVATION_FLOOR};

// Whether `function` is one of them.
inline bool is_forward_only(int64_t function) {
  return std::find(std::begin(kForwardOnly), std::end(kForwardOnly), function) !=
         std::end(kForwardOnly);
}

// The number of post-operations in front of the first one with such a function. A plugin fuses at
// most these. They end in front of RT_POST_STORE too, unless the plugin `stores`.
inline uint32_t fusible_post_ops(const Operation& op, bool stores = false) {
  uint32_t count = 0;
  while (count < op.post_op_count() && !is_forward_only(op.post_op(count).function) &&
         (stores || op.post_op(count).kind != RT_POST_STORE))
    ++count;
  return count;
}

// The number of outputs that the post-operations from number `first` on add. They are the last
// ones.
inline uint32_t stored_outputs(const Operation& op, uint32_t first = 0) {
  uint32_t count = 0;
  for (uint32_t i = first; i < op.post_op_count(); ++i) {
    if (op.post_op(i).kind == RT_POST_STORE) ++count;
  }
  return count;
}

// The number of outputs that belong to the operation itself.
inline uint32_t own_output_count(const Operation& op) {
  const uint32_t stored = stored_outputs(op);
  return op.output_count() > stored ? op.output_count() - stored : 0;
}

// The description with only the first `count` post-operations, their operands and their outputs.
// It is valid while `op` lives.
inline rt_op_desc with_post_ops(const Operation& op, uint32_t count) {
  rt_op_desc desc = op.desc();
  desc.input_count = op.own_input_count();
  desc.post_op_count = count;
  for (uint32_t i = 0; i < count; ++i) desc.input_count += op.post_op(i).operand >= 0 ? 1 : 0;
  desc.output_count -= std::min(desc.output_count, stored_outputs(op, count));
  return desc;
}

}  // namespace rt::sdk

#endif  // RT_SDK_POST_OPS_H_
