// The checks that every communicator plugin must pass. All ranks of a communicator run the same
// cases in the same order. The data that must arrive are computed from rank and index, so that no
// second communicator is needed. A case that the plugin's capabilities do not claim is skipped.
//
//   const Summary s = run_communicator_cases({communicator, rank, size}, communicator_cases());
//
// tests/collectives/support has the whole test file of a backend whose ranks are processes.
#ifndef PLUGINS_CONFORMANCE_COMMUNICATOR_H_
#define PLUGINS_CONFORMANCE_COMMUNICATOR_H_

#include <vector>

#include "plugins/conformance/communicator_case.h"
#include "plugins/conformance/conformance.h"

namespace plugins::conformance {

// Every case, in a fixed order that is the same on all ranks.
std::vector<CommunicatorCase> communicator_cases();

// Runs one case; never throws. After a call that fails or times out, the ranks may have made
// different calls, and the communicator cannot be used any more.
Result run_communicator_case(const CommunicatorWorld& world, const CommunicatorCase& c);

// Runs the cases and stops after a case in which a call failed; wrong data alone do not stop it.
Summary run_communicator_cases(const CommunicatorWorld& world,
                               const std::vector<CommunicatorCase>& cases);

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_COMMUNICATOR_H_
