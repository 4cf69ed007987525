// A key-value store that the ranks of a job share, for rendezvous and for what they tell each other
// when something has gone wrong. Never for data.
#ifndef RUNTIME_LAUNCH_STORE_H_
#define RUNTIME_LAUNCH_STORE_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace runtime::launch {

// Thread-safe. Every function throws CommunicationError when the store cannot be reached, naming
// its address and the remedy.
class Store {
 public:
  virtual ~Store() = default;
  // Overwrites. Other ranks see either nothing or the whole value.
  virtual void set(const std::string& key, const std::string& value) = 0;
  // The value if the key exists now; does not wait.
  virtual std::optional<std::string> try_get(const std::string& key) = 0;
  // Waits until the key exists; CommunicationError naming the key when the deadline has passed.
  virtual std::string get(const std::string& key, std::chrono::nanoseconds timeout) = 0;
  virtual std::string description() const = 0;  // "redis at 10.0.0.1:6379"
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_STORE_H_
