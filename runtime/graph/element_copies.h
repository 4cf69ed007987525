// Copies of slices, windows and transposes, as embedding and embedding_backward with a constant
// index.
#ifndef RUNTIME_GRAPH_ELEMENT_COPIES_H_
#define RUNTIME_GRAPH_ELEMENT_COPIES_H_

#include <vector>

#include "runtime/graph/build.h"
#include "runtime/graph/constant.h"

namespace runtime::graph {

// The constant in the graph, of a type that holds its elements; one value for all equal constants.
ValueId add_constant(Graph& graph, Constant constant, rt_dtype dtype);

// y[loop] = from[at]: a tensor with the dims of the loop. Position i of it holds the element of
// `from` whose index along each dimension is at[...](i), or 0 if one of them lies outside. Returns
// a view where nothing has to be copied. Throws DeviceError if `from` has too many rows for int32.
ValueId copy_elements(Build& build, ValueId from, const Dims& loop, const std::vector<Linear>& at);

// to[at] += from[loop]: a tensor with the dims `to`, in which each element of `from` has been added
// to zeros at its place. Elements whose place lies outside are left out.
ValueId add_elements(Build& build, ValueId from, const Dims& loop, const std::vector<Linear>& at,
                     const Dims& to);

// Rows of `table`; zeros for indices outside of first_row to first_row + rows - 1.
ValueId embed(Build& build, ValueId indices, ValueId table, int64_t first_row);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_ELEMENT_COPIES_H_
