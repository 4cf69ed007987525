// What the ranks of a job do with their communicators in one step, and whether that can end.
#ifndef RUNTIME_WATCH_CALL_PLAN_H_
#define RUNTIME_WATCH_CALL_PLAN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/watch/flight_recorder.h"

namespace runtime::watch {

// All functions: any thread.

// Returns the number of calls of a plan.
int64_t calls_in(const Plan& plan);
// Returns the call at a position; null: there is none.
const CollectiveRecord* call_at(const Plan& plan, int64_t position);

// Returns what ranks must agree on: "bucket 0: all_reduce (431080 float32), reduction 1,
// communicator 0".
std::string text_of(const CollectiveRecord& call);

// Returns what ranks that make the same calls in the same order have in common, whatever the sizes:
// a line for each item of the plan.
std::vector<std::string> order_of(const Plan& plan);

// Carries out the plans of `plans`, by rank, on communicators that are as strict as the contract
// allows: a communicator does the calls of a rank one after the other, and a call completes when
// all ranks of the communicator that have a plan here have reached theirs. Returns "" if all plans
// end; otherwise which calls do not agree, or what the ranks wait for. `name` says how a rank is
// called.
std::string find_standstill(const std::map<int, Plan>& plans, const Groups& groups,
                            const std::function<std::string(int)>& name);

}  // namespace runtime::watch

#endif  // RUNTIME_WATCH_CALL_PLAN_H_
