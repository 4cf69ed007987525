// Cases of attention, packed and general: lengths around tile sizes, odd heads, masks, documents,
// dropout, scores of -infinity and large ones.
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

// The sizes of dot_product_attention: q [n,t,heads d], k [n,s,keys d], v [n,s,keys e].
struct General {
  int64_t n, t, s, heads, keys, d, e;
  Dims q() const { return {n, t, heads * d}; }
  Dims k() const { return {n, s, keys * d}; }
  Dims v() const { return {n, s, keys * e}; }
  Dims y() const { return {n, t, heads * e}; }
  std::string text() const {
    return label(q()) + " " + label(v()) + " heads " + std::to_string(heads) + " of " +
           std::to_string(keys);
  }
};

enum class Documents { kNone, kOfBoth, kApart };

// These are the attributes and optional inputs of a case; its sizes stand in General.
struct Options {
  std::string name = {};
  bool causal = false;
  int64_t window = 0;
  double scale = 0, probability = 0;
  Documents documents = Documents::kNone;
};

// The inputs behind q, k and v. Most documents have a part in one piece, number 0, and others
// here and there; a fifth of the rest is padding.
void add_optional(Builder& b, const General& g, const Options& o) {
  if (o.probability == 0 && o.documents == Documents::kNone) return;
  b.in_of(RT_INT64, {1}, Values{0, 1000, 3});
  b.in_of(RT_INT64, {1}, Values{0, 5000000000.0, 4});  // needs more than 32 bits
  if (o.documents == Documents::kNone) return;
  b.in_of(RT_INT32, {g.n, o.documents == Documents::kOfBoth ? g.t : g.t + g.s},
          with(0, 3, 1, 20, Values{-1, 4, 5}));
}

Builder general(rt_dtype dtype, const General& g, const Options& o) {
  Builder b(RT_OP_DOT_PRODUCT_ATTENTION, dtype, g.text() + " " + o.name);
  b.in(g.q(), Values{-2, 2, 21}).in(g.k(), Values{-2, 2, 22}).in(g.v(), Values{-2, 2, 23});
  add_optional(b, g, o);
  b.out(g.y()).integer(RT_ATTR_HEADS, g.heads);
  if (g.keys != g.heads) b.integer(RT_ATTR_KEY_HEADS, g.keys);
  if (o.causal) b.integer(RT_ATTR_CAUSAL, 1);
  if (o.window > 0) b.integer(RT_ATTR_WINDOW, o.window);
  if (o.scale != 0) b.number(RT_ATTR_SCALE, o.scale);
  if (o.probability > 0) {
    b.number(RT_ATTR_PROBABILITY, o.probability).integer(RT_ATTR_SEED, 0x123456789ABCDEF);
    b.integer(RT_ATTR_STREAM, 3).integer(RT_ATTR_FIRST_HEAD, 2);
  }
  return b;
}

Builder general_backward(rt_dtype dtype, const General& g, const Options& o) {
  const Case forward = general(dtype, g, o);
  Builder b(RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD, dtype, g.text() + " " + o.name);
  b.in(g.y(), Values{-1, 1, 24});
  b.in(g.q(), forward.inputs[0]).in(g.k(), forward.inputs[1]).in(g.v(), forward.inputs[2]);
  b.in(g.y(), Values{-1, 1, 25});
  add_optional(b, g, o);
  b.out(g.q()).out(g.k()).out(g.v()).attributes(forward.operation.attributes);
  return b.forward(forward);
}

void add_general(Cases& cases, rt_dtype dtype, const General& g, const Options& o) {
  cases.push_back(general(dtype, g, o));
  cases.push_back(general_backward(dtype, g, o));
}

// Each option by itself and all together, over lengths and widths as those of the packed form, for
// queries that are more and fewer than the keys.
void add_general_cases(Cases& cases, rt_dtype dtype) {
  const std::vector<Options> options = {{"plain"},
                                        {"causal", true},
                                        {"window", true, 7},
                                        {"scale", false, 0, 0.25},
                                        {"dropout", false, 0, 0, 0.25},
                                        {"documents apart", false, 0, 0, 0, Documents::kApart},
                                        {"all", true, 40, 0.5, 0.5, Documents::kApart}};
  for (const General& g : {General{2, 5, 5, 2, 2, 3, 3}, General{1, 67, 67, 4, 2, 16, 16},
                           General{2, 33, 80, 3, 1, 8, 8}, General{1, 70, 34, 2, 2, 34, 20},
                           General{1, 1, 130, 4, 2, 64, 64}, General{1, 150, 150, 2, 1, 20, 36}}) {
    for (const Options& o : options) add_general(cases, dtype, g, o);
  }
  for (const General& g : {General{3, 5, 5, 2, 1, 4, 4}, General{2, 150, 150, 2, 2, 32, 32},
                           General{1, 200, 200, 1, 1, 80, 80}}) {
    add_general(cases, dtype, g, {"documents", false, 0, 0, 0, Documents::kOfBoth});
    add_general(cases, dtype, g, {"causal documents", true, 0, 0, 0.1, Documents::kOfBoth});
  }
  add_general(cases, dtype, {1, 40, 40, 2, 1, 128, 128}, {"wide", true});
  add_general(cases, dtype, {1, 34, 34, 1, 1, 300, 300}, {"wider", true, 10, 0, 0.25});
  add_general(cases, dtype, {1, 300, 300, 2, 1, 16, 16}, {"long window", true, 64});
  add_general(cases, dtype, {1, 300, 300, 1, 1, 16, 16}, {"window of one", true, 1});
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
  add_general_cases(cases, dtype);
}

}  // namespace plugins::conformance
