// Checks on which nodes the groups of a mesh lie, and what their collectives cost, by hand and by
// rules that hold for all of them.
#include "runtime/parallel/cluster.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "runtime/graph/graph.h"

namespace runtime::parallel {
namespace {

constexpr Link kInside{1e-6, 1e9, true}, kBetween{1e-5, 1e8, true};
constexpr uint64_t kBytes = 1'000'000;

TEST(Cluster, NeighboursOfTheTensorAxisShareANode) {
  const Cluster cluster{8, kInside, kBetween};
  const Mesh mesh{16, 4, 2};  // 128 ranks on 16 nodes
  EXPECT_EQ(widest_group(mesh, kTensorCommunicator, cluster).nodes, 1);
  const Group data = widest_group(mesh, kGradientsCommunicator, cluster);
  EXPECT_EQ(data.ranks, 16);
  EXPECT_EQ(data.nodes, 8);
  EXPECT_EQ(data.per_node(), 2);
  EXPECT_EQ(widest_pair(mesh, 0, 1, cluster).nodes, 2);
  EXPECT_EQ(widest_pair({1, 2, 4}, 0, 1, cluster).nodes, 1);
}

// A group that begins in the middle of a node lies on one node more than the first one.
TEST(Cluster, TheGroupOnMostNodesCounts) {
  const Cluster cluster{4, kInside, kBetween};
  EXPECT_EQ(widest_group({4, 3, 1}, kTensorCommunicator, cluster).nodes, 2);
  EXPECT_EQ(widest_pair({3, 1, 2}, 0, 1, cluster).nodes, 2);
}

TEST(Cluster, OneNodeCostsWhatItsLinkCosts) {
  for (const int32_t kind : {RT_ALL_REDUCE, RT_BROADCAST, RT_ALL_TO_ALL, RT_SEND}) {
    const Group group = widest_group({6, 1, 1}, kGradientsCommunicator, one_node(kInside));
    EXPECT_EQ(collective_seconds(kind, kBytes, group, one_node(kInside)),
              collective_seconds(kind, kBytes, 6, kInside));
    EXPECT_EQ(bytes_between_nodes(kind, kBytes, group), 0);
  }
}

TEST(Cluster, ByHand) {
  const Cluster cluster{4, kInside, kBetween};
  const Group group{8, 2};
  const auto seconds = [&](int32_t kind) {
    return collective_seconds(kind, kBytes, group, cluster);
  };
  // Inside: 2 x 3 messages, and 2 x 3/4 of 1 ms. Between: 2 messages, and 2 x 1/2 of a quarter of
  // 10 ms.
  EXPECT_NEAR(seconds(RT_ALL_REDUCE), 6e-6 + 1.5e-3 + 2e-5 + 2.5e-3, 1e-12);
  EXPECT_NEAR(seconds(RT_ALL_GATHER), 3e-6 + 0.75e-3 + 1e-5 + 1.25e-3, 1e-12);
  EXPECT_NEAR(seconds(RT_BROADCAST), 2e-6 + 1e-3 + 1e-5 + 10e-3, 1e-12);
  // Each rank sends an eighth to 3 ranks of its node and to 4 of the other.
  EXPECT_NEAR(seconds(RT_ALL_TO_ALL), 3e-6 + 3 / 8.0 * 1e-3 + 4e-5 + 4 / 8.0 * 10e-3, 1e-12);
  EXPECT_NEAR(collective_seconds(RT_RECEIVE, kBytes, {2, 2}, cluster), 1e-5 + 10e-3, 1e-12);
  EXPECT_EQ(bytes_between_nodes(RT_ALL_REDUCE, kBytes, group), kBytes / 4.0);
  EXPECT_EQ(bytes_between_nodes(RT_SEND, kBytes, {2, 2}), kBytes);
  EXPECT_EQ(bytes_between_nodes(RT_RECEIVE, kBytes, {2, 2}), 0);
}

// A rank sends as many bytes over both levels together as over one.
TEST(Cluster, LevelsMoveTheBytesOfAFlatCollective) {
  for (const int32_t kind : {RT_ALL_REDUCE, RT_REDUCE_SCATTER, RT_ALL_GATHER, RT_ALL_TO_ALL}) {
    for (const Group group : {Group{4, 2}, Group{8, 8}, Group{24, 3}, Group{512, 64}}) {
      const double inside = kind == RT_ALL_TO_ALL
                                ? kBytes * (group.per_node() - 1.0) / group.ranks
                                : static_cast<double>(kBytes) * bus_factor(kind, group.per_node());
      EXPECT_NEAR(inside + bytes_between_nodes(kind, kBytes, group),
                  static_cast<double>(kBytes) * bus_factor(kind, group.ranks), 1e-6)
          << kind << ", " << group.ranks << " on " << group.nodes;
    }
  }
}

TEST(Cluster, GroupsOfRandomMeshesAreThoseOfTheirRanks) {
  std::mt19937 random(7);
  const auto number = [&](int most) { return static_cast<int>(random() % most) + 1; };
  for (int i = 0; i < 200; ++i) {
    const Mesh mesh{number(8), number(6), number(4)};
    const Cluster cluster{number(9), kInside, kBetween};
    Mesh copies = mesh;
    do copies.zero_ranks = number(mesh.data);
    while (mesh.data % copies.zero_ranks != 0);
    for (const int communicator : {kPartitionsCommunicator, kReplicasCommunicator}) {
      size_t most = 0;
      for (int rank = 0; rank < mesh.size(); ++rank) {
        std::set<int> nodes;
        for (const int member : copies.members(communicator, rank))
          nodes.insert(member / cluster.ranks_per_node);
        most = std::max(most, nodes.size());
      }
      EXPECT_EQ(widest_group(copies, communicator, cluster).nodes, static_cast<int>(most));
    }
    for (const int communicator :
         {kGradientsCommunicator, kTensorCommunicator, kPipelineCommunicator}) {
      const int axis = axis_of(communicator);
      size_t most = 0;
      for (int rank = 0; rank < mesh.size(); ++rank) {
        std::set<int> nodes;
        for (int other = 0; other < mesh.size(); ++other) {
          MeshPlace a = mesh.place_of(rank), b = mesh.place_of(other);
          for (MeshPlace* place : {&a, &b})
            (axis == kDataAxis     ? place->data
             : axis == kTensorAxis ? place->tensor
                                   : place->pipeline) = 0;
          if (a == b) nodes.insert(other / cluster.ranks_per_node);
        }
        most = std::max(most, nodes.size());
      }
      EXPECT_EQ(widest_group(mesh, communicator, cluster).nodes, static_cast<int>(most));
    }
  }
}

}  // namespace
}  // namespace runtime::parallel
