// Proves, without running anything, that the collectives of a step complete.
#ifndef TESTS_RUNTIME_PARALLEL_COLLECTIVE_ORDER_H_
#define TESTS_RUNTIME_PARALLEL_COLLECTIVE_ORDER_H_

#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/parallel/mesh.h"

namespace runtime::parallel {

// Carries out the programs of all ranks of the mesh (`graphs`, by rank) with
// watch::find_standstill(). Returns "" if all of them end, and ranks with the same slices of
// the model do the same in the same order, as agree_on() in train/ expects; otherwise what is
// wrong.
std::string find_deadlock(const std::vector<graph::Graph>& graphs, const Mesh& mesh);

}  // namespace runtime::parallel

#endif  // TESTS_RUNTIME_PARALLEL_COLLECTIVE_ORDER_H_
