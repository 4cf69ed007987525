// The checks that every communicator plugin must pass. All ranks of a communicator run the same
// cases in the same order. The data that must arrive are computed from rank and index, so that no
// second communicator is needed. A case that the plugin's capabilities do not claim is skipped.
//
//   const Summary s = run_communicator_cases({communicator, rank, size}, communicator_cases());
//
// tests/collectives/support has the whole test file of a backend whose ranks are processes.
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
  // The device whose memory holds the buffers; the communicator was created with it. nullptr: host
  // memory.
  std::shared_ptr<host::Device> device = nullptr;
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);  // time limit of each wait
};

struct CommunicatorCase {
  std::string name;  // "all_reduce/float32/sum", unique
  std::function<void(Session&)> body;
};

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
