// Writes loops that copy elements as gathers and scatters of rows, as wide as possible.
#include "runtime/graph/element_copies.h"

#include <limits>
#include <memory>

#include "runtime/error.h"

namespace runtime::graph {

namespace {

// Makes rows of a constant that indexes elements as wide as they can be: elements that lie side by
// side on both sides are copied as one row. Returns the width.
int64_t widen(Constant& constant) {
  int64_t width = 1;
  while (!constant.dims.empty()) {
    const size_t last = constant.dims.size() - 1;
    const int64_t count = constant.dims[last];
    if (count > 1) {
      while (!constant.coordinates.empty() && constant.coordinates.back().size == 1 &&
             constant.coordinates.back().at.is_number() &&
             constant.coordinates.back().at.first == 0)
        constant.coordinates.pop_back();
      if (constant.coordinates.empty()) return width;
      Constant::Coordinate& inner = constant.coordinates.back();
      const auto whole = [&](int64_t n) { return n % count == 0; };
      bool side_by_side = inner.stride == 1 && inner.at.factors[last] == 1 && whole(inner.size) &&
                          whole(inner.at.first);
      for (size_t i = 0; i < last; ++i) side_by_side &= whole(inner.at.factors[i]);
      for (size_t c = 0; c + 1 < constant.coordinates.size(); ++c)
        side_by_side &= constant.coordinates[c].at.factors[last] == 0;
      if (!side_by_side) return width;
      inner.size /= count;
      inner.at.first /= count;
      for (size_t i = 0; i < last; ++i) inner.at.factors[i] /= count;
      for (size_t c = 0; c + 1 < constant.coordinates.size(); ++c)
        constant.coordinates[c].stride /= count;
      width *= count;
    }
    constant.dims.pop_back();
    for (Constant::Coordinate& c : constant.coordinates) c.at.factors.pop_back();
  }
  return width;
}

// Returns the offset of each position of the loop in a tensor with the dims `of`.
Constant offsets(const Dims& loop, const std::vector<Linear>& at, const Dims& of) {
  Constant constant{loop, {}};
  int64_t stride = 1;
  for (size_t i = of.size(); i-- > 0; stride *= of[i])
    constant.coordinates.insert(constant.coordinates.begin(), {at.at(i), of[i], stride});
  return constant;
}

// The constant as the indices of rows of a table.
ValueId row_indices(Build& build, Constant constant, int64_t rows) {
  if (rows > std::numeric_limits<int32_t>::max()) {
    throw DeviceError("layer '" + build.layer +
                      "' cannot be composed of other operations: " + std::to_string(rows) +
                      " rows are more than an index of 32 bits can count; use a smaller batch, or "
                      "choose another device.backend (runtime devices lists them)");
  }
  if (constant.dims.empty()) {
    constant.dims = {1};
    for (Constant::Coordinate& c : constant.coordinates) c.at.factors = {0};
  }
  return add_constant(build.graph(), std::move(constant), RT_INT32);
}

}  // namespace

ValueId add_constant(Graph& graph, Constant constant, rt_dtype dtype) {
  const std::string name = constant.text() + (dtype == RT_INT32 ? "" : ".number");
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].kind == ValueKind::kConstant && graph.values[v].name == name)
      return static_cast<ValueId>(v);
  }
  const ValueId id = graph.add_value(name, ValueKind::kConstant, Dims(constant.dims), dtype);
  graph.value(id).contents = std::make_shared<const Constant>(std::move(constant));
  return id;
}

ValueId embed(Build& build, ValueId indices, ValueId table, int64_t first_row) {
  const Graph& graph = build.graph();
  Dims result = graph.value(indices).dims;
  result.push_back(graph.value(table).dims[1]);
  return build.node1(RT_OP_EMBEDDING, {indices, table}, result, {{RT_ATTR_FIRST_ROW, first_row}},
                     graph.value(table).dtype);
}

ValueId copy_elements(Build& build, ValueId from, const Dims& loop, const std::vector<Linear>& at) {
  Graph& graph = build.graph();
  Constant constant = offsets(loop, at, graph.value(from).dims);
  const int64_t count = element_count(graph.value(from).dims);
  if (constant.counts_up() && element_count(loop) == count) return graph.reshape(from, loop);
  const int64_t width = widen(constant);
  const ValueId table = graph.reshape(from, {count / width, width});
  const ValueId rows = row_indices(build, std::move(constant), count / width);
  return graph.reshape(embed(build, rows, table, 0), loop);
}

ValueId add_elements(Build& build, ValueId from, const Dims& loop, const std::vector<Linear>& at,
                     const Dims& to) {
  Graph& graph = build.graph();
  Constant constant = offsets(loop, at, to);
  const int64_t width = widen(constant), count = element_count(to);
  const ValueId rows = row_indices(build, std::move(constant), count / width);
  Dims gradient = graph.value(rows).dims;
  gradient.push_back(width);
  const ValueId sums = build.node1(RT_OP_EMBEDDING_BACKWARD, {rows, graph.reshape(from, gradient)},
                                   {count / width, width}, {{RT_ATTR_FIRST_ROW, int64_t{0}}},
                                   graph.value(from).dtype);
  return graph.reshape(sums, to);
}

}  // namespace runtime::graph
