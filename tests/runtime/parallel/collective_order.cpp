// Makes a plan of each rank's program.
#include "tests/runtime/parallel/collective_order.h"

#include <map>

#include "runtime/exec/collectives.h"
#include "runtime/watch/call_plan.h"

namespace runtime::parallel {
namespace {

std::string name_of(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

std::string find_deadlock(const std::vector<graph::Graph>& graphs, const Mesh& mesh) {
  std::map<int, watch::Plan> plans;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    plans[rank] = exec::plan_of({&graphs.at(static_cast<size_t>(rank))}, mesh.size());
    const int like = mesh.along(kDataAxis, rank)[0];
    if (watch::order_of(plans[rank]) != watch::order_of(plans[like]))
      return name_of(rank) + " does other things than " + name_of(like) +
             ", which has the same slices";
  }
  const auto members = [&](uint64_t communicator, int rank) {
    return mesh.members(static_cast<int>(communicator), rank);
  };
  return watch::find_standstill(plans, {.members = members}, name_of);
}

}  // namespace runtime::parallel
