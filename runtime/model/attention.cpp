// Finds queries, keys and values in a value that has them side by side.
#include "runtime/model/attention.h"

#include <string>

#include "runtime/error.h"

namespace runtime::model {

using graph::Dims;
using graph::ValueId;

AttentionSource side_by_side(graph::Build& build, ValueId x,
                             const graph::DotProductAttention& options) {
  const Dims& dims = build.graph().value(x).dims;
  const int64_t parts = options.heads + 2 * options.key_heads;
  if (dims.size() != 3 || dims[2] % parts != 0) {
    throw ConfigurationError(
        "layer '" + build.layer + "': attention of " + std::to_string(options.heads) +
        " heads on " + graph::to_string(dims) +
        ": expected [samples, length, features], the features q, k and v side by side, a multiple "
        "of " +
        std::to_string(parts) + " (the heads, and twice those of the keys)");
  }
  const int64_t width = dims[2] / parts, own = width * options.heads,
                shared = width * options.key_heads;
  return {{x, 0, own},   {x, own, shared},  {x, own + shared, shared},
          options.heads, options.key_heads, options.window,
          options.scale};
}

ValueId value_of(graph::Build& build, const Columns& columns) {
  Dims to = build.graph().value(columns.value).dims;
  if (columns.count == to[2]) return columns.value;
  to[2] = columns.count;
  return build.node1(RT_OP_SLICE, {columns.value}, to,
                     {{RT_ATTR_AXIS, int64_t{2}}, {RT_ATTR_START, columns.begin}});
}

}  // namespace runtime::model
