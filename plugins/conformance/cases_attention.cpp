// Cases of attention: lengths around tile sizes, odd heads, masks, scores of -infinity and large
// ones.
#include "plugins/conformance/special.h"

namespace plugins::conformance {
namespace {

const Values kQkv{-2.0, 2.0, 21};  // used by the forward and the backward operation

Builder attention(rt_dtype dtype, const Dims& y, int64_t heads, bool causal,
                  const Values& qkv = kQkv) {
  const std::string name = label(y) + " heads " + std::to_string(heads);
  Builder b(RT_OP_ATTENTION, dtype, name + (causal ? " causal" : ""));
  b.in({y[0], y[1], 3 * y[2]}, qkv).out(y);
  return b.integer(RT_ATTR_HEADS, heads).integer(RT_ATTR_CAUSAL, causal);
}

void add_both(Cases& cases, const Case& forward) {
  cases.push_back(forward);
  Case backward = forward;
  backward.name.replace(0, std::string(RT_OP_ATTENTION).size(), RT_OP_ATTENTION_BACKWARD);
  backward.forward = forward.operation;
  backward.forward_inputs = forward.inputs;
  backward.operation.name = RT_OP_ATTENTION_BACKWARD;
  const rt_tensor_desc qkv = forward.operation.inputs[0], y = forward.operation.outputs[0];
  backward.operation.inputs = {y, qkv, y};
  backward.operation.outputs = {qkv};
  backward.inputs = {Values{-1.0, 1.0, 22}, forward.inputs[0], Values{-1.0, 1.0, 23}};
  cases.push_back(backward);
}

// Adds cases with scores of -infinity. With one head of size 1, each row of the operand is the
// three numbers q, k and v. q is positive, so a key of -infinity has the score -infinity for every
// query that attends to it. The result of a query that attends to no other key is NaN.
void add_scores_of_minus_infinity(Cases& cases, rt_dtype dtype) {
  const Values positive{0.5, 1.5, 21};
  for (const int64_t rows : {5, 70}) {
    for (const bool causal : {false, true}) {
      const auto add = [&](const char* name, int64_t every) {
        const Values qkv = with(-kInfinity, every, 1, 1, positive);
        add_both(cases, attention(dtype, {1, rows, 1}, 1, causal, qkv).rename(name));
      };
      add("all keys -inf", 3);
      add("first key -inf", 3 * rows);
    }
  }
}

// Adds cases whose largest score has a weight of 1 and whose other scores have a weight of 0,
// because they differ by far more than the logarithm of the largest number. A kernel that rounds a
// product of a score in one place and not in the other may find infinity in place of the 1.
void add_large_scores(Cases& cases, rt_dtype dtype) {
  const double most = dtype == RT_FLOAT16 ? 6e4 : 1e7;
  for (const Dims& y : {Dims{2, 5, 6}, Dims{1, 70, 20}}) {
    for (const bool causal : {false, true}) {
      cases.push_back(
          attention(dtype, y, 1, causal, Values{-most, most, 21}).rename("large scores"));
    }
  }
}

}  // namespace

// Lengths near multiples of 16, 32 and 64 rows; heads of one feature, of odd widths, of multiples
// of 8 and 16, and wider than 256, which some kernels compute in parts.
void add_attention(Cases& cases, rt_dtype dtype) {
  struct Shape {
    Dims y;
    int64_t heads;
  };
  for (const Shape& s :
       {Shape{{2, 1, 4}, 2}, Shape{{1, 5, 3}, 3}, Shape{{2, 33, 20}, 1}, Shape{{1, 64, 32}, 2},
        Shape{{2, 67, 34}, 2}, Shape{{1, 150, 64}, 1}, Shape{{1, 16, 80}, 1}, Shape{{1, 70, 24}, 3},
        Shape{{1, 65, 80}, 2}, Shape{{1, 70, 128}, 1}, Shape{{1, 34, 192}, 2},
        Shape{{1, 33, 136}, 1}, Shape{{1, 18, 300}, 1}}) {
    for (const bool causal : {false, true}) {
      add_both(cases, attention(dtype, s.y, s.heads, causal));
    }
  }
  add_scores_of_minus_infinity(cases, dtype);
  add_large_scores(cases, dtype);
}

}  // namespace plugins::conformance
