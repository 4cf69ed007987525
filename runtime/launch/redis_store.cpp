// Speaks to Redis with deadlines, and opens a new connection when one is lost.
#include "runtime/launch/redis_store.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "plugins/host/text.h"
#include "runtime/launch/sockets.h"

namespace runtime::launch {
namespace {

constexpr const char* kKeyPrefix = "runtime:";
constexpr const char* kExpiry = "3600";  // seconds
constexpr const char* kNoRedis =
    "see that it is a Redis server that listens at comm.rendezvous_address, and that it runs";

timeval left_until(std::chrono::steady_clock::time_point deadline) {
  using std::chrono::microseconds;
  const auto left =
      std::max(std::chrono::ceil<microseconds>(deadline - std::chrono::steady_clock::now()),
               microseconds(1));
  return {.tv_sec = static_cast<time_t>(left.count() / 1'000'000),
          .tv_usec = static_cast<suseconds_t>(left.count() % 1'000'000)};
}

std::string formatted(const std::vector<std::string>& words) {
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* bytes = nullptr;
  const auto size =
      redisFormatCommandArgv(&bytes, static_cast<int>(words.size()), texts.data(), sizes.data());
  if (size < 0) throw std::bad_alloc();
  const std::unique_ptr<char, void (*)(char*)> owner(bytes, [](char* p) { redisFreeCommand(p); });
  return {bytes, static_cast<std::size_t>(size)};
}

}  // namespace

void RedisStore::Free::operator()(redisContext* context) const { redisFree(context); }
void RedisStore::Free::operator()(redisReply* reply) const { freeReplyObject(reply); }

RedisStore::RedisStore(const std::string& address, std::chrono::nanoseconds answer)
    : answer_(answer) {
  const HostAndPort read = host_and_port(address, "redis://");
  host_ = read.host;
  port_ = read.port;
  if (port_ < 1) {
    throw ConfigurationError("comm.rendezvous_address: got '" + address +
                             "', expected host:port of a Redis server, e.g. 10.0.0.1:6379");
  }
  command({"PING"});
}

RedisStore::~RedisStore() = default;

std::string RedisStore::description() const {
  return "redis at " + host_ + ":" + std::to_string(port_);
}

void RedisStore::fail(const std::string& what, const std::string& remedy) const {
  throw CommunicationError(description() + ": " + what + "; " + remedy);
}

void RedisStore::connect(Deadline deadline) {
  connection_.reset(redisConnectWithTimeout(host_.c_str(), port_, left_until(deadline)));
  if (connection_ == nullptr) throw std::bad_alloc();
  if (connection_->err == 0) return;
  const std::string why = connection_->errstr;
  connection_.reset();
  fail("cannot connect: " + why, "start redis-server there, or correct comm.rendezvous_address");
}

// hiredis's own functions for reading and writing are not used: their time limit is for every byte
// and not for the whole answer, and a write to a connection that the server has closed would raise
// SIGPIPE.
RedisStore::Reply RedisStore::receive(Deadline deadline) {
  redisReader* const reader = connection_->reader;
  std::array<char, 4096> bytes;
  for (bool begun = false;;) {
    void* reply = nullptr;
    if (redisReaderGetReply(reader, &reply) != REDIS_OK)
      fail(std::string("its answer makes no sense: ") + reader->errstr, kNoRedis);
    if (reply != nullptr) return Reply(static_cast<redisReply*>(reply));
    if (reader->len > 2 * kLargestValue) fail("its answer has no end", kNoRedis);
    await_socket(connection_->fd, POLLIN, deadline);
    const ssize_t size = ::recv(connection_->fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (size <= 0) lose_connection("receiving", size == 0 ? ECONNRESET : errno);
    // The commands used here are never answered with an array, for which another kind of server
    // could claim any size.
    if (!begun && std::string_view("+-$").find(bytes[0]) == std::string_view::npos)
      fail("its answer begins with byte " + std::to_string(bytes[0] & 255), kNoRedis);
    begun = true;
    redisReaderFeed(reader, bytes.data(), static_cast<std::size_t>(size));
  }
}

RedisStore::Reply RedisStore::command(const std::vector<std::string>& words) {
  const std::lock_guard lock(mutex_);
  const Deadline deadline = std::chrono::steady_clock::now() + answer_;
  const std::string bytes = formatted(words);
  // The server may have closed a connection that was used before; the command is then repeated once
  // on a new connection.
  for (bool reused = connection_ != nullptr;; reused = false) {
    try {
      if (!reused) connect(deadline);
      send_all(connection_->fd, bytes, deadline);
      Reply reply = receive(deadline);
      if (reply->type != REDIS_REPLY_ERROR) return reply;
      fail("it refused " + words[0] + (words.size() > 1 ? " " + words[1] : "") + ": " +
               std::string(reply->str, std::min<std::size_t>(reply->len, 500)),
           "repair that on the server, or choose another comm.rendezvous");
    } catch (const std::system_error& error) {
      connection_.reset();
      if (!reused || error.code().value() == ETIMEDOUT)
        fail(words[0] + ": " + error.what() + " (limit " + plugins::host::seconds_text(answer_) +
                 ")",
             kNoRedis);
    } catch (...) {
      connection_.reset();
      throw;
    }
  }
}

void RedisStore::set(const std::string& key, const std::string& value) {
  const Reply reply = command({"SET", kKeyPrefix + key, value, "EX", kExpiry});
  if (reply->type != REDIS_REPLY_STATUS) fail("its answer to SET is no status", kNoRedis);
}

std::optional<std::string> RedisStore::try_get(const std::string& key) {
  const Reply reply = command({"GET", kKeyPrefix + key});
  if (reply->type == REDIS_REPLY_NIL) return std::nullopt;
  if (reply->type != REDIS_REPLY_STRING) fail("its answer to GET is no string", kNoRedis);
  return std::string(reply->str, static_cast<std::size_t>(reply->len));
}

}  // namespace runtime::launch
