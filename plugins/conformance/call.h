// Which collective the communicator checks call, and by which ranks.
#ifndef PLUGINS_CONFORMANCE_CALL_H_
#define PLUGINS_CONFORMANCE_CALL_H_

#include <memory>
#include <string>
#include <vector>

#include "plugins/host/communicator.h"

namespace plugins::conformance {

// A collective without buffers; see rt_collective.
struct Call {
  int32_t kind = RT_BARRIER;
  rt_dtype dtype = RT_FLOAT32;
  int32_t reduction = 0;
  uint64_t count = 0;
  int32_t peer = -1;
  bool in_place = false;
};

std::string describe(const Call& call);
bool has_reduction(int32_t kind);
bool has_root(int32_t kind);  // true for broadcast and reduce

// Ranks that communicate: all ranks of the world, or some of them after a split.
struct Team {
  std::shared_ptr<host::Communicator> communicator;
  int32_t rank = 0;              // this rank in `communicator`
  std::vector<int32_t> members;  // each member's rank in the world, from which its data are made
  int32_t size() const { return static_cast<int32_t>(members.size()); }
};

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_CALL_H_
