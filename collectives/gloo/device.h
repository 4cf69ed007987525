// The address of this rank, and the thread that does its input and output.
#ifndef COLLECTIVES_GLOO_DEVICE_H_
#define COLLECTIVES_GLOO_DEVICE_H_

#include <sys/socket.h>

#include <memory>
#include <string>

#include "collectives/mesh/progress_thread.h"

namespace collectives::gloo {

// A place at which ranks can be reached; copies share the thread.
struct Device {
  std::shared_ptr<mesh::ProgressThread> progress;
  sockaddr_storage address{};  // the address on which this rank accepts its peers; port 0
  socklen_t address_bytes = 0;
};

// The device of `interface`: the name of a network interface or a numeric address; "" means
// 127.0.0.1. Throws rt::sdk::Error for an unknown interface, and for the address of all interfaces,
// because the traffic is neither authenticated nor encrypted.
Device open_device(const std::string& interface);

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_DEVICE_H_
