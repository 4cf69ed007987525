// Reads and checks the operands and the attributes of dot_product_attention and its gradient. All
// functions throw the errors of rt/sdk/expect.h.
#ifndef RT_SDK_ATTENTION_OPERANDS_H_
#define RT_SDK_ATTENTION_OPERANDS_H_

#include "rt/sdk/attention.h"

namespace rt::sdk {

// Reads heads and sizes from the attributes and from the descriptions of q, k and v, of which q is
// input `first`.
inline void read_attention_sizes(const Operation& op, uint32_t first, DotProductAttention& s) {
  const Dims q = dims_of(input_of_rank(op, first, "q", 3));
  const Dims k = dims_of(input_of_rank(op, first + 1, "k", 3));
  const Dims v = dims_of(input_of_rank(op, first + 2, "v", 3));
  op.integer(RT_ATTR_HEADS);  // throws if it is missing
  s.heads = integer_at_least(op, RT_ATTR_HEADS, 0, 1);
  const int64_t key_heads = integer_at_least(op, RT_ATTR_KEY_HEADS, 0, 0);
  s.key_heads = key_heads > 0 ? key_heads : s.heads;
  s.samples = q[0];
  s.queries = q[1];
  s.keys = k[1];
  s.width = q[2] / s.heads;
  s.value_width = v[2] / s.key_heads;
  const bool fits = s.width > 0 && s.value_width > 0 && s.heads % s.key_heads == 0 && q == s.q() &&
                    k == s.k() && v == s.v();
  if (fits) return;
  op.fail(format("%lld heads, %lld key heads, q ", static_cast<long long>(s.heads),
                 static_cast<long long>(s.key_heads)) +
          to_string(q) + ", k " + to_string(k) + ", v " + to_string(v) +
          "; expected q [N,T,heads D], k [N,S,key_heads D] and v [N,S,key_heads E], and key_heads "
          "that divide heads");
}

// Reads the attributes of the mask, the scores and the dropout.
inline void read_attention_attributes(const Operation& op, DotProductAttention& s) {
  s.causal = op.integer(RT_ATTR_CAUSAL, 0) != 0;
  s.window = integer_at_least(op, RT_ATTR_WINDOW, 0, 0);
  if (s.window > 0 && !s.causal) op.fail("a window needs causal = 1");
  s.scale = op.number(RT_ATTR_SCALE, 0);
  if (!(s.scale >= 0 && std::isfinite(s.scale))) {
    op.fail(format("scale is %g, expected a positive number, or 0 for 1 / sqrt(D)", s.scale));
  }
  if (s.scale == 0) s.scale = 1 / std::sqrt(static_cast<double>(s.width));
  s.probability = op.number(RT_ATTR_PROBABILITY, 0);
  if (!(s.probability >= 0 && s.probability < 1)) {
    op.fail(format("probability is %g, expected 0 <= probability < 1", s.probability));
  }
  s.seed = static_cast<uint64_t>(op.integer(RT_ATTR_SEED, 0));
  s.stream = static_cast<uint32_t>(op.integer(RT_ATTR_STREAM, 0));
  s.first_head = static_cast<uint32_t>(integer_at_least(op, RT_ATTR_FIRST_HEAD, 0, 0));
}

// Reads which of the inputs from `first` on there are: step, base and documents.
inline void read_attention_options(const Operation& op, uint32_t first, DotProductAttention& s) {
  const uint32_t more = op.own_input_count() - std::min(op.own_input_count(), first);
  if (more == 1 || more > 3 || (s.probability > 0 && more == 0)) {
    op.fail(
        format("%u inputs behind the first %u; expected none, step and base (which dropout "
               "needs), or step, base and documents",
               more, first));
  }
  s.counters = more > 0;
  if (!s.counters) return;
  expect_input(op, first, "step", RT_INT64, {1});
  expect_input(op, first + 1, "base", RT_INT64, {1});
  if (more == 2) return;
  const Dims documents = dims_of(input_of_rank(op, first + 2, "documents", 2));
  const bool both = s.queries == s.keys && documents[1] == s.queries;
  s.documents = both ? s.queries : s.queries + s.keys;
  expect_input(op, first + 2, "documents", RT_INT32, {s.samples, s.documents});
}

// Reads and checks the operands q, k, v, .. -> y, which all have the type `dtype`.
inline DotProductAttention dot_product_attention_shape(const Operation& op, rt_dtype dtype) {
  DotProductAttention s{};
  read_attention_sizes(op, 0, s);
  read_attention_attributes(op, s);
  read_attention_options(op, 3, s);
  expect_counts(op, op.own_input_count(), 1);
  expect_input(op, 1, "k", dtype, s.k());
  expect_input(op, 2, "v", dtype, s.v());
  expect_output(op, 0, "y", dtype, s.y());
  return s;
}
// The same for dy, q, k, v, y, .. -> dq, dk, dv.
inline DotProductAttention dot_product_attention_backward_shape(const Operation& op,
                                                                rt_dtype dtype) {
  DotProductAttention s{};
  read_attention_sizes(op, 1, s);
  read_attention_attributes(op, s);
  read_attention_options(op, 5, s);
  expect_counts(op, op.own_input_count(), 3);
  expect_input(op, 0, "dy", dtype, s.y());
  expect_input(op, 1, "q", dtype, s.q());
  expect_input(op, 2, "k", dtype, s.k());
  expect_input(op, 3, "v", dtype, s.v());
  expect_input(op, 4, "y", dtype, s.y());
  expect_output(op, 0, "dq", dtype, s.q());
  expect_output(op, 1, "dk", dtype, s.k());
  expect_output(op, 2, "dv", dtype, s.v());
  return s;
}

}  // namespace rt::sdk

#endif  // RT_SDK_ATTENTION_OPERANDS_H_
