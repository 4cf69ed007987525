// Proves, without running anything, that the collectives of a step complete.
#ifndef TESTS_RUNTIME_PARALLEL_COLLECTIVE_ORDER_H_
#define TESTS_RUNTIME_PARALLEL_COLLECTIVE_ORDER_H_

#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/parallel/mesh.h"

namespace runtime::parallel {

// Plays the programs of all ranks of the mesh (`graphs`, by rank) on communicators that are as
// strict as the contract allows: each carries out the calls of a rank one after the other, and a
// call is over when all that take part have come to theirs. Empty if all ranks come to their end;
// else which calls do not agree, or what every rank that is stuck waits for.
std::string find_deadlock(const std::vector<graph::Graph>& graphs, const Mesh& mesh);

}  // namespace runtime::parallel

#endif  // TESTS_RUNTIME_PARALLEL_COLLECTIVE_ORDER_H_
