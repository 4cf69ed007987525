// Describes a call of a collective in words, and says which collectives reduce or have a root.
#include "plugins/conformance/call.h"

#include "plugins/host/text.h"
#include "rt/sdk/operation.h"

namespace plugins::conformance {

bool has_reduction(int32_t kind) {
  return kind == RT_ALL_REDUCE || kind == RT_REDUCE_SCATTER || kind == RT_REDUCE;
}

bool has_root(int32_t kind) { return kind == RT_BROADCAST || kind == RT_REDUCE; }

std::string describe(const Call& call) {
  std::string text = host::collective_name(call.kind);
  if (call.kind == RT_BARRIER) return text;
  text += rt::sdk::format(" of %llu %s", static_cast<unsigned long long>(call.count),
                          rt::sdk::to_string(call.dtype).c_str());
  if (has_reduction(call.kind)) text += ", " + host::reduction_name(call.reduction);
  if (call.peer >= 0) text += ", peer " + std::to_string(call.peer);
  return text + (call.in_place ? ", in place" : "");
}

}  // namespace plugins::conformance
