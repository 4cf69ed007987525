// Where the ranks of a job lie, what connects them, and what a collective costs there.
#ifndef RUNTIME_PARALLEL_CLUSTER_H_
#define RUNTIME_PARALLEL_CLUSTER_H_

#include <cstdint>

#include "runtime/parallel/efficiency.h"

namespace runtime::parallel {

// The ranks of one collective.
struct Group {
  int ranks = 1, nodes = 1;  // the number of nodes that they lie on

  // The most ranks on a node, if they lie as evenly as they can.
  int per_node() const { return (ranks + nodes - 1) / nodes; }
};

// The machines of a job. Rank r lies on node r / ranks_per_node.
struct Cluster {
  int ranks_per_node = 0;  // 0: all ranks are on one node
  Link inside, between;    // of a rank, while all ranks use theirs

  int node_of(int rank) const { return ranks_per_node > 0 ? rank / ranks_per_node : 0; }
};

// A cluster of one node.
inline Cluster one_node(const Link& link) { return {0, link, link}; }

// Returns the group of ranks with such a communicator (mesh.h) that lies on the most nodes. It is
// the slowest of these groups, which are all busy together.
Group widest_group(const Mesh& mesh, int communicator, const Cluster& cluster);
// The same for a transfer between two places of the pipeline.
Group widest_pair(const Mesh& mesh, int from, int to, const Cluster& cluster);

// Seconds of one collective on `bytes` (of the larger buffer of a rank). Inside a node as
// collective_seconds(kind, bytes, ranks, link). Over several nodes the ranks of each node first
// reduce among them, so that each has a part; each exchanges its part with those that have the same
// part on the other nodes, by recursive halving and doubling; and those of a node share the
// results. `collectives/gloo` does that; NCCL's rings and trees send as much over each link.
double collective_seconds(int32_t kind, uint64_t bytes, const Group& group, const Cluster& cluster);

// The bytes of such a collective that a rank sends to other nodes. bus_factor() counts them, too.
double bytes_between_nodes(int32_t kind, uint64_t bytes, const Group& group);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_CLUSTER_H_
