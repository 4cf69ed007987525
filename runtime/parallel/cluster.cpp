// Finds the groups of a mesh that lie on most nodes, and adds up the two levels of a collective.
#include "runtime/parallel/cluster.h"

#include <algorithm>
#include <cmath>

#include "runtime/graph/graph.h"

namespace runtime::parallel {

namespace {

// Returns the part of the larger buffer of a rank that the rank sends to other nodes.
double share_between(int32_t kind, const Group& g) {
  if (g.nodes < 2) return 0;
  switch (kind) {
    case RT_ALL_REDUCE:
    case RT_REDUCE_SCATTER:
    case RT_ALL_GATHER:
      return bus_factor(kind, g.nodes) / g.per_node();
    case RT_ALL_TO_ALL:
      return static_cast<double>(g.ranks - g.per_node()) / g.ranks;
    default:
      return 1;
  }
}

// The number of messages between nodes that follow each other.
double rounds_between(int32_t kind, const Group& g) {
  if (kind == RT_SEND || kind == RT_RECEIVE) return 1;
  if (kind == RT_ALL_TO_ALL) return g.ranks - g.per_node();
  return std::ceil(std::log2(g.nodes)) * (kind == RT_ALL_REDUCE ? 2 : 1);
}

// The bytes that the ranks of one node exchange among them.
double bytes_inside(int32_t kind, double bytes, const Group& g) {
  return kind == RT_ALL_TO_ALL ? bytes * g.per_node() / g.ranks : bytes;
}

// Whether a rank is the first of those that share a communicator with it.
bool is_first(const Mesh& mesh, int communicator, const MeshPlace& place) {
  if (communicator == kPartitionsCommunicator) return place.data % mesh.partitions() == 0;
  if (communicator == kReplicasCommunicator) return place.data < mesh.partitions();
  const int axis = axis_of(communicator);
  return (axis == kDataAxis     ? place.data
          : axis == kTensorAxis ? place.tensor
                                : place.pipeline) == 0;
}

}  // namespace

Group widest_group(const Mesh& mesh, int communicator, const Cluster& cluster) {
  Group widest{static_cast<int>(mesh.members(communicator, 0).size()), 1};
  if (cluster.ranks_per_node == 0 || widest.ranks == 1) return widest;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    if (!is_first(mesh, communicator, mesh.place_of(rank))) continue;
    // They ascend, so those of a node follow each other.
    int nodes = 0, last = -1;
    for (const int r : mesh.members(communicator, rank)) {
      nodes += cluster.node_of(r) != last;
      last = cluster.node_of(r);
    }
    widest.nodes = std::max(widest.nodes, nodes);
  }
  return widest;
}

Group widest_pair(const Mesh& mesh, int from, int to, const Cluster& cluster) {
  const int in_place = mesh.data * mesh.tensor;
  for (int i = 0; i < in_place; ++i) {
    if (cluster.node_of(from * in_place + i) != cluster.node_of(to * in_place + i)) return {2, 2};
  }
  return {2, 1};
}

double collective_seconds(int32_t kind, uint64_t bytes, const Group& group,
                          const Cluster& cluster) {
  if (group.nodes < 2) return collective_seconds(kind, bytes, group.ranks, cluster.inside);
  const bool is_transfer = kind == RT_SEND || kind == RT_RECEIVE;
  const double inside = bytes_inside(kind, static_cast<double>(bytes), group);
  return (is_transfer ? 0
                      : collective_seconds(kind, static_cast<uint64_t>(inside), group.per_node(),
                                           cluster.inside)) +
         rounds_between(kind, group) * cluster.between.latency_s +
         static_cast<double>(bytes) * share_between(kind, group) / cluster.between.bytes_per_second;
}

double bytes_between_nodes(int32_t kind, uint64_t bytes, const Group& group) {
  return kind == RT_RECEIVE ? 0 : static_cast<double>(bytes) * share_between(kind, group);
}

}  // namespace runtime::parallel
