// The cosines and sines of positions as constants of a graph.
#ifndef RUNTIME_MODEL_TURN_TABLES_H_
#define RUNTIME_MODEL_TURN_TABLES_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/model/rotations.h"

namespace runtime::model {

// Adds a value to the graph that never changes. `numbers` is called when the graph is compiled.
graph::ValueId add_constant(graph::Graph& graph, const std::string& name, const graph::Dims& dims,
                            rt_dtype dtype, std::function<std::vector<double>()> numbers);

// The tables of rotary positions of one graph, which layers with the same angles share.
class TurnTables {
 public:
  // A table [places, columns] of that type, see turns() in rotations.h.
  graph::ValueId find(graph::Graph& graph, const Rotations& rotations, int64_t columns,
                      int64_t places, rt_dtype dtype);

 private:
  std::vector<std::pair<Rotations, graph::ValueId>> known_;
};

}  // namespace runtime::model

#endif  // RUNTIME_MODEL_TURN_TABLES_H_
