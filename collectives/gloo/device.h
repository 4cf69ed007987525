// Where this rank can be reached, and the thread that does its input and output.
#ifndef COLLECTIVES_GLOO_DEVICE_H_
#define COLLECTIVES_GLOO_DEVICE_H_

#include <sys/socket.h>

#include <memory>
#include <string>

#include "loop.h"

namespace collectives::gloo {

struct Device {
  std::shared_ptr<Loop> loop;
  sockaddr_storage address{};  // on which this rank lets its peers in; port 0
  socklen_t address_bytes = 0;
};

// The device of `interface`: the name of a network interface or a numeric address, "" for
// 127.0.0.1. Throws rt::sdk::Error for the address of all interfaces, since traffic is neither
// authenticated nor encrypted.
Device open_device(const std::string& interface);

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_DEVICE_H_
