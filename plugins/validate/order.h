// The order of work: which use of memory is known to come before which.
#ifndef PLUGINS_VALIDATE_ORDER_H_
#define PLUGINS_VALIDATE_ORDER_H_

#include "plugins/validate/objects.h"

namespace plugins::validate {

// The caller of every function but the last one holds Tracker::mutex.

// Counts one more piece of work of the stream, which everything that the host knows has run before.
Epoch begin_work(StreamObject& stream);
// Checks that nothing uses the memory at the same time, and keeps the use. `where` names the call
// and the operand. Between `begin` and `end` of a capture, only notes the use for the replays.
void use(StreamObject& stream, const Range& range, bool writes, const Epoch& epoch,
         const std::string& where);
// The same for a use by the host, or by a collective that starts now.
void use_by_host(DeviceObject& device, const Range& range, bool writes, const std::string& where);
// Faults the runtime if a collective that has not completed uses the memory.
void expect_not_in_flight(Tracker& tracker, const Range& range, bool writes,
                          const std::string& where);
// Faults the runtime if queued work or a collective may still use the memory.
void expect_unused(DeviceObject& device, const Range& range, const std::string& where);

// Faults the runtime if this thread records work of the device: until the end of that it may not
// wait, query or allocate. The caller does not hold Tracker::mutex.
void expect_no_capture(DeviceObject& device, const char* call);

}  // namespace plugins::validate

#endif  // PLUGINS_VALIDATE_ORDER_H_
