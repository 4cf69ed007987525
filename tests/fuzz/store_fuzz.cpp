// Whatever a connection sends, the store of rank 0 goes on: another rank finds the value that it
// has set. A first byte that is odd stands for a hello with the right secret.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "plugins/host/descriptor.h"
#include "runtime/launch/store_messages.h"
#include "runtime/launch/tcp_store.h"

namespace {

using runtime::launch::TcpStore;

constexpr const char* kSecret = "secret";

void send_to(int port, const std::string& bytes) {
  const plugins::host::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // Ends with a reset, so that no ports are used up by connections that have ended.
  const linger at_once{1, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return;
  static_cast<void>(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static TcpStore& store =
      *new TcpStore({.address = "127.0.0.1:0", .leads = true, .secret = kSecret});
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (size > 0 && data[0] % 2 == 1) {
    std::string hello(runtime::launch::wire::kMagic);
    runtime::launch::wire::add_number(hello, std::string(kSecret).size());
    bytes.replace(0, 1, hello + kSecret);
  }
  send_to(store.port(), bytes);
  store.set("own", "value");
  if (!store.try_get("own")) std::abort();
  return 0;
}
