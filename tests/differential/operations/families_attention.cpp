// The families (family.h) of attention, packed and general.
#include "rt/operations.h"
#include "tests/differential/operations/family.h"

namespace differential {
namespace {

// Operands that forward and backward share have the same Values, and no others have.
const Values kQkv{-2.0, 2.0, 21}, kQ = kQkv, kK{-2.0, 2.0, 24}, kV{-2.0, 2.0, 25};

constexpr double kHuge = 1e10;  // keeps products of four numbers within float32
constexpr int64_t kMostAttentionProducts = 2000000;

Builder attention(const Sizes& s, rt_dtype dtype) {
  const int64_t c = s["heads"] * s["width"];
  Builder b(RT_OP_ATTENTION, dtype, "");
  b.in({s["n"], s["rows"], 3 * c}, kQkv).out({s["n"], s["rows"], c});
  return b.integer(RT_ATTR_HEADS, s["heads"]).integer(RT_ATTR_CAUSAL, s["causal"]);
}

Case attention_backward(const Sizes& s, rt_dtype dtype) {
  const Case forward = attention(s, dtype);
  const rt_tensor_desc qkv = forward.operation.inputs[0], y = forward.operation.outputs[0];
  Case backward = Builder(RT_OP_ATTENTION_BACKWARD, dtype, "").forward(forward).get();
  backward.operation.attributes = forward.operation.attributes;
  backward.operation.inputs = {y, qkv, y};
  backward.operation.outputs = {qkv};
  backward.inputs = {Values{-1.0, 1.0, 22}, kQkv, Values{-1.0, 1.0, 23}};
  return backward;
}

Family attention_family(const char* operation,
                        const std::function<Case(const Sizes&, rt_dtype)>& build) {
  Family f{.operation = operation,
           .parameters = {size_or_none("n", 3), size_or_none("rows", 150), size("width", 80),
                          choice("heads", {1, 1, 2, 3, 8}), flag("causal")}};
  f.build = [build](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const int64_t products = s["n"] * s["heads"] * s["rows"] * s["rows"] * s["width"];
    if (products > kMostAttentionProducts) return std::nullopt;
    return build(s, dtype);
  };
  f.not_finite = NotFinite::kMaySpread;
  f.huge = kHuge;
  return f;
}

// What dot_product_attention is built from.
struct General {
  Dims q, k, v, y;
  int64_t heads, key_heads;
};

General general_of(const Sizes& s) {
  const int64_t key_heads = s["key_heads"], heads = key_heads * s["group"];
  const int64_t queries = s["rows"], keys = s["documents"] == 1 ? queries : s["keys"];
  return {{s["n"], queries, heads * s["width"]},
          {s["n"], keys, key_heads * s["width"]},
          {s["n"], keys, key_heads * s["value_width"]},
          {s["n"], queries, heads * s["value_width"]},
          heads,
          key_heads};
}

// The inputs step, base and documents.
void add_optional(Builder& b, const Sizes& s, const General& g) {
  if (s["documents"] == 0 && s["percent"] == 0) return;
  b.in_of(RT_INT64, {1}, Values{0, 1000, 3});
  b.in_of(RT_INT64, {1}, Values{0, s["large_base"] ? 5e9 : 100.0, 4});
  if (s["documents"] == 0) return;
  const int64_t numbers = s["documents"] == 1 ? g.y[1] : g.y[1] + g.k[1];
  b.in_of(RT_INT32, {s["n"], numbers}, Values{-1, 3, 5});
}

Builder general(const Sizes& s, rt_dtype dtype) {
  const General g = general_of(s);
  Builder b(RT_OP_DOT_PRODUCT_ATTENTION, dtype, "");
  b.in(g.q, kQ).in(g.k, kK).in(g.v, kV).out(g.y);
  add_optional(b, s, g);
  b.integer(RT_ATTR_HEADS, g.heads).integer(RT_ATTR_KEY_HEADS, g.key_heads);
  b.integer(RT_ATTR_CAUSAL, s["causal"]).integer(RT_ATTR_WINDOW, s["causal"] ? s["window"] : 0);
  b.number(RT_ATTR_SCALE, s["scaled"] ? 0.375 : 0.0);
  b.number(RT_ATTR_PROBABILITY, static_cast<double>(s["percent"]) / 100);
  b.integer(RT_ATTR_SEED, 0x123456789ABCDEF).integer(RT_ATTR_STREAM, 3);
  return b.integer(RT_ATTR_FIRST_HEAD, s["first_head"]);
}

Builder general_backward(const Sizes& s, rt_dtype dtype) {
  const General g = general_of(s);
  const Case forward = general(s, dtype);
  Builder b(RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD, dtype, "");
  b.in(g.y, Values{-1.0, 1.0, 22}).in(g.q, kQ).in(g.k, kK).in(g.v, kV);
  b.in(g.y, Values{-1.0, 1.0, 23}).out(g.q).out(g.k).out(g.v);
  add_optional(b, s, g);
  return b.attributes(forward.operation.attributes).forward(forward);
}

Family general_family(const char* operation, Builder (*build)(const Sizes&, rt_dtype)) {
  Family f{.operation = operation,
           .parameters = {size_or_none("n", 3), size_or_none("rows", 150),
                          size_or_none("keys", 150), size("width", 80), size("value_width", 80),
                          choice("key_heads", {1, 1, 2, 3}), choice("group", {1, 1, 2, 3}),
                          flag("causal"), choice("window", {0, 0, 1, 3, 20, 64}),
                          choice("percent", {0, 0, 10, 50, 90}), choice("documents", {0, 0, 1, 2}),
                          flag("scaled"), choice("first_head", {0, 1, 70000}), flag("large_base")}};
  f.build = [build](const Sizes& s, rt_dtype dtype) -> std::optional<Case> {
    const General g = general_of(s);
    const int64_t pairs = s["n"] * g.heads * g.y[1] * g.k[1];
    if (pairs * (s["width"] + s["value_width"]) > kMostAttentionProducts) return std::nullopt;
    return build(s, dtype);
  };
  f.not_finite = NotFinite::kMaySpread;
  f.huge = kHuge;
  return f;
}

}  // namespace

void add_attention(Families& families) {
  families.push_back(attention_family(
      RT_OP_ATTENTION, [](const Sizes& s, rt_dtype dtype) -> Case { return attention(s, dtype); }));
  families.push_back(attention_family(RT_OP_ATTENTION_BACKWARD, attention_backward));
  families.push_back(general_family(RT_OP_DOT_PRODUCT_ATTENTION, general));
  families.push_back(general_family(RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD, general_backward));
}

}  // namespace differential
