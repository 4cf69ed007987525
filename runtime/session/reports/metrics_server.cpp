// Opens the socket, and has libmicrohttpd speak HTTP over it.
#include "runtime/session/reports/metrics_server.h"

#include <dlfcn.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdarg>
#include <exception>
#include <mutex>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "plugins/host/descriptor.h"
#include "runtime/error.h"

namespace runtime::session {

namespace {

using plugins::host::Descriptor;

constexpr unsigned kMostConnections = 16, kSilentSeconds = 10;
constexpr size_t kMostBytesOfARequest = 16 << 10;

[[noreturn]] void cannot_serve(const std::string& address, int port, const std::string& why) {
  throw ConfigurationError("metrics.prometheus_address = \"" + address + "\", port " +
                           std::to_string(port) + " of this rank: cannot listen there: " + why +
                           "; choose an address of this machine, and another "
                           "metrics.prometheus_port if the port is in use");
}

Descriptor listen_at(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) cannot_serve(address, port, ::gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Descriptor listener(
        ::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    const int yes = 1;  // a run that goes on at once finds the port of the one before
    if (listener &&
        ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
        ::bind(listener.get(), one->ai_addr, one->ai_addrlen) == 0 &&
        ::listen(listener.get(), kMostConnections) == 0)
      return listener;
    error = errno;
  }
  cannot_serve(address, port, std::generic_category().message(error));
}

int port_of(int listener) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &bytes);
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// The functions of libmicrohttpd. It brings ten other libraries along, and each start of the
// program, which starts itself for each plugin that it looks at, would take 2 ms longer with them.
struct Http {
  decltype(&::MHD_start_daemon) start_daemon = nullptr;
  decltype(&::MHD_stop_daemon) stop_daemon = nullptr;
  decltype(&::MHD_create_response_from_buffer) create_response = nullptr;
  decltype(&::MHD_add_response_header) add_header = nullptr;
  decltype(&::MHD_queue_response) queue_response = nullptr;
  decltype(&::MHD_destroy_response) destroy_response = nullptr;

  Http() {
    void* const library = ::dlopen(MICROHTTPD_FILE, RTLD_NOW | RTLD_LOCAL);  // stays open
    const auto find = [&](auto& function, const char* name) {
      void* const found = library == nullptr ? nullptr : ::dlsym(library, name);
      if (found == nullptr)
        throw ConfigurationError(std::string("metrics.prometheus_port needs the library ") +
                                 MICROHTTPD_FILE + ", which cannot be used: " + ::dlerror() +
                                 "; install it (libmicrohttpd12 on Debian), or remove the key");
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    };
    find(start_daemon, "MHD_start_daemon");
    find(stop_daemon, "MHD_stop_daemon");
    find(create_response, "MHD_create_response_from_buffer");
    find(add_header, "MHD_add_response_header");
    find(queue_response, "MHD_queue_response");
    find(destroy_response, "MHD_destroy_response");
  }
};

void be_silent(void*, const char*, va_list) {}  // what strangers send is no news of the run

}  // namespace

struct MetricsServer::State {
  Http http;
  std::mutex mutex;
  std::string text;
  int port = 0;
  MHD_Daemon* daemon = nullptr;

  static MHD_Result answer(void* self, MHD_Connection* connection, const char* path,
                           const char* method, const char*, const char*, size_t*, void**) noexcept
      try {
    auto& state = *static_cast<State*>(self);
    const bool known = std::string_view(path) == "/metrics";
    const bool reads = std::string_view(method) == "GET" || std::string_view(method) == "HEAD";
    std::string body = known ? "only GET is answered\n" : "the numbers are at /metrics\n";
    if (known && reads) {
      const std::scoped_lock lock(state.mutex);
      body = state.text;
    }
    const unsigned status = !known   ? MHD_HTTP_NOT_FOUND
                            : !reads ? MHD_HTTP_METHOD_NOT_ALLOWED
                                     : MHD_HTTP_OK;
    MHD_Response* const response =
        state.http.create_response(body.size(), body.data(), MHD_RESPMEM_MUST_COPY);
    if (response == nullptr) return MHD_NO;  // out of memory: the connection is closed
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
      state.http.add_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    state.http.add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                          "text/plain; version=0.0.4; charset=utf-8");
    const MHD_Result result = state.http.queue_response(connection, status, response);
    state.http.destroy_response(response);
    return result;
  } catch (const std::exception&) {  // there is no memory
    return MHD_NO;
  }
};

MetricsServer::MetricsServer(const std::string& address, int port)
    : state_(std::make_unique<State>()) {
  Descriptor listener = listen_at(address, port);
  state_->port = port_of(listener.get());
  state_->daemon = state_->http.start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO, 0, nullptr, nullptr, &State::answer,
      state_.get(), MHD_OPTION_EXTERNAL_LOGGER, &be_silent, nullptr, MHD_OPTION_LISTEN_SOCKET,
      listener.get(), MHD_OPTION_CONNECTION_LIMIT, kMostConnections, MHD_OPTION_CONNECTION_TIMEOUT,
      kSilentSeconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, kMostBytesOfARequest, MHD_OPTION_END);
  if (state_->daemon == nullptr)
    cannot_serve(address, port, "libmicrohttpd could not start its thread");
  listener.release();
}

MetricsServer::~MetricsServer() { state_->http.stop_daemon(state_->daemon); }

int MetricsServer::port() const { return state_->port; }

void MetricsServer::show(std::string text) {
  const std::scoped_lock lock(state_->mutex);
  state_->text = std::move(text);
}

}  // namespace runtime::session
