// A Redis server as key-value store.
#ifndef RUNTIME_LAUNCH_REDIS_STORE_H_
#define RUNTIME_LAUNCH_REDIS_STORE_H_

#include <mutex>
#include <vector>

#include "runtime/launch/bells.h"
#include "runtime/launch/store.h"

struct redisContext;
struct redisReply;

namespace runtime::launch {

// Throws as Store does. Threads wait for each other: one command at a time.
class RedisStore : public Store {
 public:
  // Connects to "host:port" or "redis://host:port". The server must answer each command within
  // `answer`. Throws ConfigurationError for any other form of address.
  explicit RedisStore(const std::string& address,
                      std::chrono::nanoseconds answer = std::chrono::seconds(5));
  ~RedisStore() override;
  // Values expire after an hour, because a server serves many jobs and the values of a killed job
  // must not stay.
  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> try_get(const std::string& key) override;
  // Asks five times a second.
  std::unique_ptr<watch::Bell> bell(const std::string& key) override {
    return asking_bell(*this, key);
  }
  std::string description() const override;

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  struct Free {
    void operator()(redisContext* context) const;
    void operator()(redisReply* reply) const;
  };
  using Reply = std::unique_ptr<redisReply, Free>;

  void connect(Deadline deadline);
  Reply receive(Deadline deadline);
  Reply command(const std::vector<std::string>& words);
  [[noreturn]] void fail(const std::string& what, const std::string& remedy) const;

  std::string host_;
  int port_ = 0;
  std::chrono::nanoseconds answer_;
  std::mutex mutex_;
  std::unique_ptr<redisContext, Free> connection_;  // empty after an error
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_REDIS_STORE_H_
