// Requests are a byte and their arguments; numbers have 64 bits, the lowest byte first, and a
// string has its size in front.
#include "runtime/launch/torch_store.h"

#include <cerrno>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "runtime/launch/poll.h"
#include "runtime/launch/sockets.h"

namespace runtime::launch {
namespace {

using namespace std::chrono_literals;

enum Request : char {
  kValidate = 0,
  kSetKey = 1,
  kGetValue = 3,
  kCheck = 5,
  kWaitFor = 6,
  kCancelWait = 12
};
// kCheck is answered with kReady or kNotReady, kWaitFor with kStopWaiting, kCancelWait with 1.
constexpr char kReady = 0, kNotReady = 1, kStopWaiting = 0;
constexpr uint32_t kValidation = 0x3C85F7CE;

constexpr const char* kNoAgent =
    "see that MASTER_ADDR and MASTER_PORT are those of torchrun's agent, and that no firewall "
    "closes the port";
constexpr const char* kAgentGone =
    "torchrun's agent, which keeps it, has ended or cannot be reached: see its output";
constexpr const char* kOtherVersion =
    "it does not answer as that of PyTorch 2.4 and newer; use its torchrun, or set "
    "comm.rendezvous_address to tcp://host:port with the host of rank 0 and a free port there";
// A rank that waits for a key asks again after this, so that it notices when the agent is gone.
constexpr auto kLongestTurn = 1000ms;

template <class Number>
std::string bytes_of(Number number) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(Number); ++i)
    bytes += static_cast<char>(static_cast<uint8_t>(number >> (8 * i)));
  return bytes;
}

// Keys of other users of the store do not begin so.
std::string key_of(const std::string& key) {
  const std::string whole = "runtime/" + key;
  return bytes_of<uint64_t>(whole.size()) + whole;
}

std::string request(Request kind, const std::string& arguments) {
  return std::string(1, static_cast<char>(kind)) + arguments;
}

// kCheck and kWaitFor take several keys.
std::string request_of_one(Request kind, const std::string& key) {
  return request(kind, bytes_of<uint64_t>(1) + key_of(key));
}

char answer(int socket, const std::string& asked, SocketDeadline deadline) {
  send_all(socket, asked, deadline);
  return receive_all(socket, 1, deadline)[0];
}

std::string get_value(int socket, const std::string& key, SocketDeadline deadline) {
  send_all(socket, request(kGetValue, key_of(key)), deadline);
  const std::string size = receive_all(socket, sizeof(uint64_t), deadline);
  uint64_t bytes = 0;
  for (size_t i = 0; i < size.size(); ++i)
    bytes |= uint64_t{static_cast<uint8_t>(size[i])} << (8 * i);
  if (bytes > kLargestValue) lose_connection("reading its answer", EPROTO);
  return receive_all(socket, bytes, deadline);
}

// The store of an older PyTorch takes what is said here for the beginning of another request, and
// does not answer, or it closes the connection, as one does whose agent ends.
void greet_agent(int socket, SocketDeadline deadline) {
  char reply = kReady;
  try {
    reply =
        answer(socket, request(kValidate, bytes_of(kValidation)) + request_of_one(kCheck, "hello"),
               deadline);
  } catch (const std::system_error& error) {
    if (error.code().value() == ETIMEDOUT) throw CommunicationError(kOtherVersion);
    throw std::runtime_error(error.what() + std::string(": ") + kOtherVersion);
  }
  if (reply != kReady && reply != kNotReady) throw CommunicationError(kOtherVersion);
}

ServerConnections::Server agent_at(const std::string& address, std::chrono::nanoseconds answer) {
  const HostAndPort read = host_and_port(address, "");
  if (read.port < 1)
    throw ConfigurationError("MASTER_ADDR and MASTER_PORT of torchrun: got '" + address +
                             "', expected host:port");
  return {.name = "torchrun's store at " + address,
          .hosts = {read.host},
          .port = std::to_string(read.port),
          .hello = greet_agent,
          .absent = kNoAgent,
          .gone = kAgentGone,
          .answer = answer};
}

}  // namespace

TorchStore::TorchStore(const std::string& address, std::chrono::nanoseconds come,
                       std::chrono::nanoseconds answer)
    : connections_(agent_at(address, answer)) {
  connections_.open(SocketDeadline::clock::now() + come);
}

// The store does not answer a set; it answers the check behind it when the set is done.
void TorchStore::set(const std::string& key, const std::string& value) {
  const std::string asked =
      request(kSetKey, key_of(key) + bytes_of<uint64_t>(value.size()) + value) +
      request_of_one(kCheck, key);
  connections_.use(0ms, [&](int socket, SocketDeadline deadline) {
    if (launch::answer(socket, asked, deadline) != kReady)
      lose_connection("reading its answer", EPROTO);
  });
}

// The store breaks the connection if the value of a key that does not exist is asked for.
std::optional<std::string> TorchStore::try_get(const std::string& key) {
  std::optional<std::string> value;
  connections_.use(0ms, [&](int socket, SocketDeadline deadline) {
    if (answer(socket, request_of_one(kCheck, key), deadline) == kReady)
      value = get_value(socket, key, deadline);
  });
  return value;
}

// The server does not answer until the key is set.
std::unique_ptr<watch::Bell> TorchStore::bell(const std::string& key) {
  return connections_.bell(request_of_one(kWaitFor, key), [](int socket, SocketDeadline deadline) {
    if (receive_all(socket, 1, deadline)[0] != kStopWaiting)
      lose_connection("reading its answer", EPROTO);
    return true;
  });
}

std::optional<std::string> TorchStore::wait_for(const std::string& key,
                                                std::chrono::nanoseconds at_most) {
  return wait_in_turns(at_most, kLongestTurn, [&](std::chrono::milliseconds turn) {
    std::optional<std::string> value;
    connections_.use(turn, [&](int socket, SocketDeadline deadline) {
      send_all(socket, request_of_one(kWaitFor, key), deadline);
      const SocketDeadline until = SocketDeadline::clock::now() + turn;
      char reply = kStopWaiting;
      try {
        reply = receive_all(socket, 1, until)[0];
      } catch (const std::system_error& error) {
        if (error.code().value() != ETIMEDOUT) throw;
        // The key may have come at this moment; then there are two answers.
        reply = answer(socket, request(kCancelWait, ""), deadline);
        if (reply != kStopWaiting) return;
        receive_all(socket, 1, deadline);
      }
      if (reply != kStopWaiting) lose_connection("reading its answer", EPROTO);
      value = get_value(socket, key, deadline);
    });
    return value;
  });
}

}  // namespace runtime::launch
