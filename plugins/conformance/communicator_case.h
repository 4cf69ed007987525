// A case of the communicator checks, and the world of ranks in which it runs.
#ifndef PLUGINS_CONFORMANCE_COMMUNICATOR_CASE_H_
#define PLUGINS_CONFORMANCE_COMMUNICATOR_CASE_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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

// The three lists that make up communicator_cases(): every collective with every type; works,
// groups and errors; communicators made by split.
std::vector<CommunicatorCase> data_cases();
std::vector<CommunicatorCase> behaviour_cases();
std::vector<CommunicatorCase> split_cases();

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_COMMUNICATOR_CASE_H_
