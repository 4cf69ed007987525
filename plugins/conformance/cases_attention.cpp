// Attention
#include "plugins/conformance/builder.h"

namespace plugins::conformance {
namespace {

const Values kQkv{-2.0, 2.0, 21};  // forward and backward share it

Builder attention(rt_dtype dtype, const Dims& y, int64_t heads, bool causal) {
  const std::string name = label(y) + " heads " + std::to_string(heads);
  Builder b(RT_OP_ATTENTION, dtype, name + (causal ? " causal" : ""));
  b.in({y[0], y[1], 3 * y[2]}, kQkv).out(y);
  return b.integer(RT_ATTR_HEADS, heads).integer(RT_ATTR_CAUSAL, causal);
}

}  // namespace

// Lengths around blocks of 16 and 64 rows, heads of one feature and of odd widths.
void add_attention(Cases& cases, rt_dtype dtype) {
  struct Shape {
    Dims y;
    int64_t heads;
  };
  for (const Shape& s :
       {Shape{{2, 1, 4}, 2}, Shape{{1, 5, 3}, 3}, Shape{{2, 33, 20}, 1}, Shape{{1, 64, 32}, 2},
        Shape{{2, 67, 34}, 2}, Shape{{1, 150, 64}, 1}, Shape{{1, 16, 80}, 1}}) {
    for (const bool causal : {false, true}) {
      const Builder forward = attention(dtype, s.y, s.heads, causal);
      cases.push_back(forward);
      Case backward = forward;
      backward.name.replace(0, std::string(RT_OP_ATTENTION).size(), RT_OP_ATTENTION_BACKWARD);
      backward.forward = forward.get().operation;
      backward.forward_inputs = forward.get().inputs;
      backward.operation.name = RT_OP_ATTENTION_BACKWARD;
      const rt_tensor_desc qkv = backward.operation.inputs[0], y = backward.operation.outputs[0];
      backward.operation.inputs = {y, qkv, y};
      backward.operation.outputs = {qkv};
      backward.inputs = {Values{-1.0, 1.0, 22}, kQkv, Values{-1.0, 1.0, 23}};
      cases.push_back(backward);
    }
  }
}

}  // namespace plugins::conformance
