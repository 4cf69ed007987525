// The sizes of attention and dot_product_attention, the keys that a query sees, and which weights
// dropout keeps. attention_operands.h reads them from an operation.
#ifndef RT_SDK_ATTENTION_H_
#define RT_SDK_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "rt/sdk/expect.h"
#include "rt/sdk/philox.h"

namespace rt::sdk {

// q [N,T,H D], k [N,S,K D], v [N,S,K E] -> y [N,T,H E], where H query heads share K key heads.
struct DotProductAttention {
  int64_t samples, queries, keys;  // N, T, S
  int64_t heads, key_heads;        // H, K
  int64_t width, value_width;      // D, E
  bool causal;
  int64_t window;      // 0: no limit; else `causal` is set
  double scale;        // of the scores
  double probability;  // that a weight is dropped; 0: there is no dropout
  uint64_t seed;
  uint32_t stream, first_head;
  bool counters;      // the operands step and base are given
  int64_t documents;  // numbers for each sample: 0 (none), T or T + S

  // Dims of operands.
  Dims q() const { return {samples, queries, heads * width}; }
  Dims k() const { return {samples, keys, key_heads * width}; }
  Dims v() const { return {samples, keys, key_heads * value_width}; }
  Dims y() const { return {samples, queries, heads * value_width}; }
  // The number of query heads that share a key head.
  int64_t group() const { return heads / key_heads; }
  // The number of rows of all heads and samples: softmaxes.
  int64_t rows() const { return samples * heads * queries; }
  // Where the documents of a sample's keys begin among its documents.
  int64_t key_documents() const { return documents == queries ? 0 : queries; }

  // As far as `causal` and `window` say, query i sees the keys first_key(i) .. end_key(i) - 1: none
  // if the end is not above the first.
  int64_t end_key(int64_t i) const {
    return causal ? std::clamp<int64_t>(i + keys - queries + 1, 0, keys) : keys;
  }
  int64_t first_key(int64_t i) const {
    return window > 0 ? std::max<int64_t>(i + keys - queries + 1 - window, 0) : 0;
  }

  // The key of Philox for the dropout of one step.
  PhiloxKey key_of(int64_t step) const {
    const auto number = static_cast<uint64_t>(step);
    const PhiloxCounter words = philox4x32_10(
        {static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), stream, ~uint32_t{0}},
        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    return {words[0], words[1]};
  }
  // A weight is kept if the upper 24 bits of its random number are at least this.
  uint32_t threshold() const { return static_cast<uint32_t>(std::ceil(probability * 0x1p24)); }
};

// The packed attention, in which all heads have keys of their own and as many columns.
inline DotProductAttention packed_attention(int64_t samples, int64_t length, int64_t heads,
                                            int64_t width, bool causal) {
  DotProductAttention s{};
  s.samples = samples;
  s.queries = s.keys = length;
  s.heads = s.key_heads = heads;
  s.width = s.value_width = width;
  s.causal = causal;
  s.scale = 1 / std::sqrt(static_cast<double>(width));
  return s;
}

}  // namespace rt::sdk

#endif  // RT_SDK_ATTENTION_H_
