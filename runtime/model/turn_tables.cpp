// Adds each table of cosines and sines to a graph once.
#include "runtime/model/turn_tables.h"

#include <memory>
#include <string>

#include "runtime/graph/constant.h"

namespace runtime::model {

graph::ValueId TurnTables::find(graph::Graph& graph, const Rotations& rotations, int64_t columns,
                                int64_t places, rt_dtype dtype) {
  const graph::Dims dims = {places, columns};
  for (const auto& [known, value] : known_) {
    if (known == rotations && graph.value(value).dims == dims) return value;
  }
  auto contents = std::make_shared<graph::Constant>();
  contents->dims = dims;
  contents->numbers = [=] { return turns(rotations, columns, places); };
  const graph::ValueId value =
      graph.add_value("rotary." + std::to_string(known_.size()), graph::ValueKind::kConstant,
                      graph::Dims(dims), dtype);
  graph.value(value).contents = std::move(contents);
  known_.emplace_back(rotations, value);
  return value;
}

}  // namespace runtime::model
