// The cosines and sines of rotary positions as constants of a graph.
#ifndef RUNTIME_MODEL_TURN_TABLES_H_
#define RUNTIME_MODEL_TURN_TABLES_H_

#include <utility>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/model/rotations.h"

namespace runtime::model {

// The tables of one graph, which layers with the same angles share.
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
