// Connects to rank 0, says hello, and exchanges requests and answers with deadlines.
#include "runtime/launch/tcp_store.h"

#include <cerrno>
#include <stdexcept>
#include <utility>
#include <vector>

#include "runtime/launch/poll.h"
#include "runtime/launch/sockets.h"
#include "runtime/launch/store_messages.h"

namespace runtime::launch {
namespace {

using namespace std::chrono_literals;

constexpr const char* kGone =
    "rank 0, or the agent that keeps it for rank 0, has ended or cannot be reached: see its output";
constexpr const char* kAbsent =
    "see that rank 0 runs on that host with the same rendezvous, and that no firewall closes the "
    "port; raise comm.init_timeout_s if it starts later";
// A rank that waits for a key asks again after this, so that it notices when rank 0 is gone.
constexpr auto kLongestWait = 1000ms;
// A rank that listens for a key says so again after this.
constexpr auto kHeartbeat = 10min;
constexpr const char* kOwnScheme = "tcp://";

// Throws ConfigurationError for another form of address.
int port_of(const TcpStore::Options& options) {
  const int port = host_and_port(options.address, kOwnScheme).port;
  if (port >= (options.leads ? 0 : 1)) return port;
  throw ConfigurationError("comm.rendezvous_address: got '" + options.address +
                           "', expected tcp://host:port with the host of rank 0 and a free port "
                           "there, e.g. tcp://10.0.0.1:29500");
}

void say_hello(const std::string& secret, int socket, SocketDeadline deadline) {
  std::string hello(wire::kMagic);
  wire::add_number(hello, secret.size());
  send_all(socket, hello + secret, deadline);
  const char reply = receive_all(socket, 1, deadline)[0];
  if (reply == wire::kWrongSecret)
    throw CommunicationError(
        "it refused the secret of this rank; give all ranks the same RUNTIME_SECRET, or the same "
        "file in RUNTIME_SECRET_FILE; if another job uses this port, choose another one");
  if (reply != wire::kWelcome)
    throw std::runtime_error("what listens there is no store of this program");
}

void check(const std::string& secret) {
  if (secret.size() > wire::kMostSecret)
    throw ConfigurationError("the secret of the job (RUNTIME_SECRET, RUNTIME_SECRET_FILE) has " +
                             std::to_string(secret.size()) + " bytes, expected at most " +
                             std::to_string(wire::kMostSecret));
}

// `own`: on rank 0, which serves.
ServerConnections::Server server_of(const TcpStore::Options& options, const StoreServer* own) {
  const std::string host = host_and_port(options.address, kOwnScheme).host;
  const std::string port = std::to_string(own != nullptr ? own->port() : port_of(options));
  std::vector<std::string> hosts = options.others;
  hosts.insert(hosts.begin(), own != nullptr ? own->own_host() : host);
  return {
      .name = "the store of rank 0 at " + host + ":" + port,
      .hosts = std::move(hosts),
      .port = port,
      .hello = [secret = options.secret](
                   int socket, SocketDeadline deadline) { say_hello(secret, socket, deadline); },
      .absent = kAbsent,
      .gone = kGone,
      .answer = options.answer};
}

}  // namespace

std::unique_ptr<StoreServer> TcpStore::serve(const Options& options) {
  check(options.secret);
  return std::make_unique<StoreServer>(host_and_port(options.address, kOwnScheme).host,
                                       port_of(options), options.secret);
}

TcpStore::TcpStore(const Options& options)
    : server_(options.leads ? serve(options) : nullptr),
      connections_(server_of(options, server_.get())) {
  check(options.secret);
  connections_.open(SocketDeadline::clock::now() + options.come);
}

std::string TcpStore::description() const { return connections_.server().name; }

int TcpStore::port() const { return std::stoi(connections_.server().port); }

std::string TcpStore::request(char kind, std::chrono::milliseconds wait, const std::string& key,
                              const std::string& value) const {
  if (key.empty() || key.size() > wire::kMostKey || value.size() > kLargestValue)
    connections_.fail("the key '" + key.substr(0, 100) + "' or its value is too long",
                      "this is a fault");
  std::string bytes(1, kind);
  for (const std::size_t number :
       {static_cast<std::size_t>(wait.count()), key.size(), value.size()})
    wire::add_number(bytes, number);
  return bytes + key + value;
}

TcpStore::Answer TcpStore::receive(int socket, SocketDeadline deadline) {
  const std::string head = receive_all(socket, wire::kAnswerHead, deadline);
  const std::size_t bytes = wire::number_at(head, 1);
  if (bytes > kLargestValue) lose_connection("reading its answer", EPROTO);
  return {head[0], receive_all(socket, bytes, deadline)};
}

TcpStore::Answer TcpStore::ask(char kind, std::chrono::milliseconds wait, const std::string& key,
                               const std::string& value) {
  const std::string asked = request(kind, wait, key, value);
  Answer answer;
  connections_.use(wait, [&](int socket, SocketDeadline deadline) {
    send_all(socket, asked, deadline);
    answer = receive(socket, deadline);
  });
  return answer;
}

std::unique_ptr<watch::Bell> TcpStore::bell(const std::string& key) {
  return connections_.bell(request(wire::kGet, kHeartbeat, key, ""),
                           [](int socket, SocketDeadline deadline) {
                             return receive(socket, deadline).kind == wire::kFound;
                           });
}

void TcpStore::set(const std::string& key, const std::string& value) {
  if (ask(wire::kSet, 0ms, key, value).kind == wire::kFull)
    connections_.fail("it is full", "this is a fault: a job stores a few kilobytes for each rank");
}

std::optional<std::string> TcpStore::try_get(const std::string& key) {
  Answer answer = ask(wire::kGet, 0ms, key);
  if (answer.kind != wire::kFound) return std::nullopt;
  return std::move(answer.value);
}

std::optional<std::string> TcpStore::wait_for(const std::string& key,
                                              std::chrono::nanoseconds at_most) {
  return wait_in_turns(at_most, kLongestWait, [&](std::chrono::milliseconds turn) {
    Answer answer = ask(wire::kGet, turn, key);
    return answer.kind == wire::kFound ? std::optional(std::move(answer.value)) : std::nullopt;
  });
}

}  // namespace runtime::launch
