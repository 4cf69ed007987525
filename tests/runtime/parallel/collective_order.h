// Proves, without running anything, that the collectives of a step complete.
#ifndef TESTS_RUNTIME_PARALLEL_COLLECTIVE_ORDER_H_
#define TESTS_RUNTIME_PARALLEL_COLLECTIVE_ORDER_H_

#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/parallel/mesh.h"

namespace runtime::parallel {

// Simulates the programs of all ranks of the mesh (`graphs`, by rank) on communicators that are as
// strict as the contract allows: a communicator does the calls of a rank one after the other, and a
// call completes when all ranks of the communicator have reached theirs. Returns "" if all programs
// end; otherwise a text that says which calls do not agree, or what every stuck rank waits for.
std::string find_deadlock(const std::vector<graph::Graph>& graphs, const Mesh& mesh);

}  // namespace runtime::parallel

#endif  // TESTS_RUNTIME_PARALLEL_COLLECTIVE_ORDER_H_
