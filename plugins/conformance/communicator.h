// The checks that every communicator plugin must pass. Every rank of a communicator runs the same
// cases in the same order; what must arrive is computed from rank and index, so that nothing but
// the communicator itself is needed. A case that the plugin's capabilities do not claim is skipped.
//
//   const Summary s = run_communicator_cases({communicator, rank, size}, communicator_cases());
//
// A whole test file of a backend whose ranks are processes: see tests/collectives/support.
#ifndef PLUGINS_CONFORMANCE_COMMUNICATOR_H_
#define PLUGINS_CONFORMANCE_COMMUNICATOR_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugins/conformance/conformance.h"
#include "plugins/host/communicator.h"

namespace plugins::conformance {

class Session;  // session.h

// The communicator under test and the place of the calling rank in it.
struct CommunicatorWorld {
  std::shared_ptr<host::Communicator> communicator;
  int32_t rank = 0;
  int32_t size = 1;
  // Buffers are in the memory of this device, which the communicator was created with; nullptr: in
  // host memory.
  std::shared_ptr<host::Device> device = nullptr;
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);  // of each wait
};

struct CommunicatorCase {
  std::string name;  // "all_reduce/float32/sum", unique
  std::function<void(Session&)> body;
};

// Every case, in a fixed order that is the same on every rank.
std::vector<CommunicatorCase> communicator_cases();

// Never throws. After a call that fails or times out the ranks may be out of step: the
// communicator is of no use then.
Result run_communicator_case(const CommunicatorWorld& world, const CommunicatorCase& c);

// Stops after a case in which a call failed; wrong data alone do not stop it.
Summary run_communicator_cases(const CommunicatorWorld& world,
                               const std::vector<CommunicatorCase>& cases);

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_COMMUNICATOR_H_
