// Runs the passes that fit a graph to a device, for graphs that are no steps.
#include "runtime/graph/fuse.h"
#include "runtime/graph/layout.h"
#include "runtime/graph/lower.h"

namespace runtime::graph {

std::vector<std::string> fit_to_device(Graph& graph, Target& target) {
  remove_dead_nodes(graph);
  std::vector<std::string> notes = lower(graph, target);
  fuse(graph, target);
  unfuse(graph, target);
  remove_dead_nodes(graph);
  choose_layouts(graph, target);
  return notes;
}

}  // namespace runtime::graph
