// Where this rank listens.
#ifndef COLLECTIVES_GLOO_DEVICE_H_
#define COLLECTIVES_GLOO_DEVICE_H_

#include <gloo/transport/device.h>

#include <memory>
#include <string>

namespace collectives::gloo {

// Gloo's device: an address, and the thread that does all input and output of its connections.
using Device = std::shared_ptr<::gloo::transport::Device>;

// A device that listens on `interface`: the name of a network interface or a numeric address, ""
// for 127.0.0.1. Throws rt::sdk::Error for the address of all interfaces, since Gloo's traffic is
// neither authenticated nor encrypted.
Device open_device(const std::string& interface);

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_DEVICE_H_
