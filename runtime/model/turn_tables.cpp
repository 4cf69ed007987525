// Adds each table of cosines and sines to a graph once.
#include "runtime/model/turn_tables.h"

#include <memory>

#include "runtime/graph/constant.h"

namespace runtime::model {

graph::ValueId add_constant(graph::Graph& graph, const std::string& name, const graph::Dims& dims,
                            rt_dtype dtype, std::function<std::vector<double>()> numbers) {
  auto contents = std::make_shared<graph::Constant>();
  contents->dims = dims;
  contents->numbers = std::move(numbers);
  const graph::ValueId value =
      graph.add_value(name, graph::ValueKind::kConstant, graph::Dims(dims), dtype);
  graph.value(value).contents = std::move(contents);
  return value;
}

graph::ValueId TurnTables::find(graph::Graph& graph, const Rotations& rotations, int64_t columns,
                                int64_t places, rt_dtype dtype) {
  const graph::Dims dims = {places, columns};
  for (const auto& [known, value] : known_) {
    if (known == rotations && graph.value(value).dims == dims) return value;
  }
  const graph::ValueId value =
      add_constant(graph, "rotary." + std::to_string(known_.size()), dims, dtype,
                   [=] { return turns(rotations, columns, places); });
  known_.emplace_back(rotations, value);
  return value;
}

}  // namespace runtime::model
