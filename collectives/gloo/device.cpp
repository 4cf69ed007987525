// Finds the address of the network interface that the configuration names.
#include "device.h"

#include <arpa/inet.h>
#include <gloo/common/logging.h>
#include <gloo/transport/tcp/device.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rt/sdk/error.h"

namespace collectives::gloo {
namespace {

using rt::sdk::Error;
using rt::sdk::format;

bool is_any_address(const std::string& text) {
  in_addr four{};
  in6_addr six{};
  if (inet_pton(AF_INET, text.c_str(), &four) == 1) return four.s_addr == INADDR_ANY;
  if (inet_pton(AF_INET6, text.c_str(), &six) == 1) return IN6_IS_ADDR_UNSPECIFIED(&six);
  return false;
}

// Checked here, because Gloo leaks memory if it finds out itself.
bool is_address_of_this_machine(const std::string& text) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(text.c_str(), nullptr, &hints, &found) != 0) return false;
  const int file = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool bound = file >= 0 && ::bind(file, found->ai_addr, found->ai_addrlen) == 0;
  if (file >= 0) ::close(file);
  freeaddrinfo(found);
  return bound;
}

std::string interface_names() {
  std::string names;
  struct if_nameindex* all = if_nameindex();
  for (auto* i = all; i != nullptr && i->if_name != nullptr; ++i) {
    names += (names.empty() ? "" : ", ") + std::string(i->if_name);
  }
  if_freenameindex(all);
  return names;
}

}  // namespace

Device open_device(const std::string& interface) {
  ::gloo::transport::tcp::attr attributes;
  if (interface.empty()) {
    attributes.hostname = "127.0.0.1";
  } else if (is_any_address(interface)) {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                format("interface '%s' means all interfaces, but traffic is neither authenticated "
                       "nor encrypted; name one of %s, or one address",
                       interface.c_str(), interface_names().c_str()));
  } else if (if_nametoindex(interface.c_str()) != 0) {
    attributes.iface = interface;
  } else if (is_address_of_this_machine(interface)) {
    attributes.hostname = interface;
  } else {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                format("interface '%s' is neither an interface nor an address of this machine; "
                       "its interfaces are %s",
                       interface.c_str(), interface_names().c_str()));
  }
  try {
    const auto found = ::gloo::transport::tcp::CreateDeviceAttr(attributes);
    return {std::make_shared<mesh::ProgressThread>(), found.ai_addr,
            static_cast<socklen_t>(found.ai_addrlen)};
  } catch (const std::exception& e) {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                format("cannot listen on interface '%s': %s; interfaces of this machine are %s",
                       interface.empty() ? "127.0.0.1" : interface.c_str(), e.what(),
                       interface_names().c_str()));
  }
}

}  // namespace collectives::gloo
