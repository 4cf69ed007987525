// Lists the ranks along each axis of the mesh.
#include "runtime/launch/groups.h"

#include <numeric>
#include <string>

namespace runtime::launch {

using parallel::axis_of;
using parallel::kAxisNames;
using parallel::kCommunicators;
using parallel::kGradientsCommunicator;
using parallel::kPartitionsCommunicator;
using parallel::kReplicasCommunicator;
using parallel::kStatisticsCommunicator;

watch::Groups groups_of(const parallel::Mesh& mesh) {
  watch::Groups groups;
  for (int c = 0; c < kCommunicators; ++c)
    groups.names.push_back("the " + std::string(kAxisNames[axis_of(c)]) + " axis");
  groups.names.push_back("all ranks");
  groups.names[kStatisticsCommunicator] += " (not gradients)";
  groups.names[kPartitionsCommunicator] += " (ZeRO's partitions)";
  groups.names[kReplicasCommunicator] += " (copies of a partition)";
  if (mesh.data == mesh.size()) groups.names[kGradientsCommunicator].clear();
  groups.members = [mesh](uint64_t communicator, int rank) {
    if (communicator < kCommunicators) return mesh.members(static_cast<int>(communicator), rank);
    std::vector<int> all(static_cast<size_t>(mesh.size()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  };
  return groups;
}

}  // namespace runtime::launch
