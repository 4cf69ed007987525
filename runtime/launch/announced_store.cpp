// Puts a port, a secret and addresses into one value, and tries these addresses.
#include "runtime/launch/announced_store.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <sstream>
#include <utility>

#include "runtime/launch/nonce.h"
#include "runtime/launch/tcp_store.h"

namespace runtime::launch {
namespace {

constexpr const char* kAnnouncement = "store/0";  // rank 0 sets it

// Both stores, of which the second is used.
struct Announced {
  std::shared_ptr<Store> through;
  TcpStore store;
};

std::shared_ptr<Store> kept(const std::shared_ptr<Store>& through,
                            const TcpStore::Options& options) {
  const std::shared_ptr<Announced> both(new Announced{through, TcpStore(options)});
  return {both, &both->store};
}

std::shared_ptr<Store> announce(const std::shared_ptr<Store>& through,
                                std::chrono::nanoseconds come) {
  const std::string secret = make_nonce();
  auto store =
      kept(through, {.address = "localhost:0", .leads = true, .secret = secret, .come = come});
  std::string text = secret + " " + std::to_string(static_cast<TcpStore&>(*store).port());
  for (const std::string& address : own_addresses()) text += " " + address;
  through->set(kAnnouncement, text + " 127.0.0.1");
  return store;
}

}  // namespace

std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0 ||
        (i->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    const int family = i->ifa_addr->sa_family;
    const auto& of6 = reinterpret_cast<const sockaddr_in6*>(i->ifa_addr)->sin6_addr;
    const void* const address = family == AF_INET6
                                    ? static_cast<const void*>(&of6)
                                    : &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr;
    if (family != AF_INET && (family != AF_INET6 || IN6_IS_ADDR_LINKLOCAL(&of6))) continue;
    char text[INET6_ADDRSTRLEN] = "";
    if (::inet_ntop(family, address, text, sizeof text) != nullptr) found.emplace_back(text);
  }
  return found;
}

std::shared_ptr<Store> open_announced(const std::shared_ptr<Store>& through, bool leads,
                                      std::chrono::nanoseconds come) {
  if (leads) return announce(through, come);
  std::istringstream text(through->get(kAnnouncement, come, 0));
  TcpStore::Options options{.come = come};
  std::string port;
  text >> options.secret >> port;
  for (std::string address; text >> address;) options.others.push_back(address);
  if (options.others.empty())
    throw CommunicationError(through->description() +
                             ": rank 0 has announced no store; see that all ranks have the same "
                             "version of this program");
  options.address = "[" + options.others[0] + "]:" + port;
  options.others.erase(options.others.begin());
  return kept(through, options);
}

}  // namespace runtime::launch
