// A key-value store that the ranks of a job share, for rendezvous and for what they tell each other
// when something has gone wrong. Never for data.
#ifndef RUNTIME_LAUNCH_STORE_H_
#define RUNTIME_LAUNCH_STORE_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "runtime/error.h"

namespace runtime::launch {

// A key that nobody has set in time.
class StoreTimeout : public CommunicationError {
 public:
  using CommunicationError::CommunicationError;
};

// What is larger was not written by a rank.
constexpr std::size_t kLargestValue = std::size_t{1} << 20;

// Thread-safe. Every function throws CommunicationError when the store cannot be reached or holds
// what is no value, naming its address and the remedy. A key that ends in "/<rank>" is found
// fastest when that rank has set it.
class Store {
 public:
  virtual ~Store() = default;
  // Overwrites. Other ranks see either nothing or the whole value. In a store that is fresh() a
  // rank sets a key once: PMIx keeps what a rank has been told.
  virtual void set(const std::string& key, const std::string& value) = 0;
  // The value if the key exists now; does not wait.
  virtual std::optional<std::string> try_get(const std::string& key) = 0;
  // Waits until the key exists; StoreTimeout naming the key, and the rank that was to set it, when
  // the deadline has passed. Asks at least once.
  std::string get(const std::string& key, std::chrono::nanoseconds timeout,
                  std::optional<int> setter = std::nullopt);
  virtual std::string description() const = 0;  // "redis at 10.0.0.1:6379"
  // Whether nothing of another run can be in it.
  virtual bool fresh() const { return false; }
};

// "30 s", "0.25 s"
std::string seconds_text(std::chrono::nanoseconds time);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_STORE_H_
