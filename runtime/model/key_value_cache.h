// The keys and values of a text's tokens, kept from step to step, so that one more token costs the
// forward pass of that token alone.
#ifndef RUNTIME_MODEL_KEY_VALUE_CACHE_H_
#define RUNTIME_MODEL_KEY_VALUE_CACHE_H_

#include <vector>

#include "runtime/graph/build.h"
#include "runtime/model/attention.h"
#include "runtime/model/layer.h"

namespace runtime::model {

// A forward pass of one sample uses the cache in one of these ways.
enum class CacheUse {
  kNone,    // nothing
  kFill,    // computes a window of tokens and gives out the keys and values of all of them
  kExtend,  // computes one token, which attends to those in the cache and to itself
};

// The cache in a graph, for windows of T tokens. Equivalent to: past_key_values in Hugging Face's
// transformers, of a fixed size.
struct KeyValueCache {
  // The keys and the values of each attention layer in turn. With kExtend they are the cache itself
  // (kState, [T + 1, C]): row 0 is that of the token which the step computes, and row 1 + i that of
  // token i of the window; before the next step the caller copies row 0 to the token's own row.
  // With kFill they are those of all tokens (kOutput, [T, C]), which the caller copies to the rows
  // of the cache. The step copies neither, because operands lie at addresses that the device
  // aligns.
  std::vector<graph::ValueId> tensors;
  // An input of kExtend: int32 [1, 1], the token's place in the window; kNone if no layer reads it.
  graph::ValueId position = graph::kNone;
  // Inputs of kExtend, [1, T + 1], which are added to the scores: 0 for the token itself and those
  // before it that layers with this window of tokens see, -infinity for other rows of the cache.
  struct Mask {
    int64_t window = 0;  // tokens, the own one included; 0: all
    graph::ValueId value = graph::kNone;
  };
  std::vector<Mask> masks;
};

// Whether a model can extend a text by one token: its first layer looks up tokens, and the others
// compute each token alone or let it attend to those before it.
bool can_extend(const Model& model);

// Appends the keys and values of all T tokens as outputs.
void fill_cache(graph::Build& build, KeyValueCache& cache, const AttentionSource& source);

// Appends the attention of one token; returns [1, 1, C]. `tokens` is T.
graph::ValueId extend_attention(graph::Build& build, KeyValueCache& cache,
                                const AttentionSource& source, int64_t tokens);

}  // namespace runtime::model

#endif  // RUNTIME_MODEL_KEY_VALUE_CACHE_H_
