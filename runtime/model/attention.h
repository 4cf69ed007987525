// What an attention layer reads.
#ifndef RUNTIME_MODEL_ATTENTION_H_
#define RUNTIME_MODEL_ATTENTION_H_

#include <cstdint>

#include "runtime/graph/build.h"

namespace runtime::model {

// Neighbouring columns of a value [1, T, C] that have the queries, the keys or the values.
struct Columns {
  graph::ValueId value = graph::kNone;
  int64_t begin = 0, count = 0;
};
// What one attention layer reads, and how it attends: see graph::DotProductAttention.
struct AttentionSource {
  Columns queries, keys, values;
  int64_t heads = 1, key_heads = 1, window = 0;
  double scale = 0;  // 0: 1 / sqrt(columns of a head)
};

// Queries, keys and values that lie side by side in x. `options.key_heads` is not 0. Throws
// ConfigurationError, which names the layer of `build`, if the features of x do not divide.
AttentionSource side_by_side(graph::Build& build, graph::ValueId x,
                             const graph::DotProductAttention& options);

// The columns as a value of their own.
graph::ValueId value_of(graph::Build& build, const Columns& columns);

}  // namespace runtime::model

#endif  // RUNTIME_MODEL_ATTENTION_H_
