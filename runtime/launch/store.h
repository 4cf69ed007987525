// A key-value store that the ranks of a job use for rendezvous, and to tell each other when
// something has failed. It never carries data of the training. Equivalent to:
// torch.distributed.Store.
#ifndef RUNTIME_LAUNCH_STORE_H_
#define RUNTIME_LAUNCH_STORE_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "runtime/error.h"
#include "runtime/watch/bell.h"

namespace runtime::launch {

// A key was not set in time.
class StoreTimeout : public CommunicationError {
 public:
  using CommunicationError::CommunicationError;
};

// Bytes; a larger value was not written by a rank.
constexpr std::size_t kLargestValue = std::size_t{1} << 20;

// All functions are thread-safe. They throw CommunicationError that names the store's address and
// the remedy if the store cannot be reached or holds something that is not a value. A key that ends
// in "/<rank>" is found fastest if that rank has set it.
class Store {
 public:
  virtual ~Store() = default;
  // Sets or overwrites a value. Other ranks see either nothing or the whole value. In a store that
  // is fresh(), a rank may set a key only once, because PMIx may go on returning the first value
  // that a rank has read.
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Returns the value if the key exists now; does not wait.
  virtual std::optional<std::string> try_get(const std::string& key) = 0;
  // The value once the key exists; asks at least once, and returns nothing after `at_most`.
  virtual std::optional<std::string> wait_for(const std::string& key,
                                              std::chrono::nanoseconds at_most);
  // Rings once the key exists: a thread waits for it and for other things at once. Most cost
  // nothing until then (bells.h). It must not outlive the store.
  virtual std::unique_ptr<watch::Bell> bell(const std::string& key) = 0;
  // Waits until the key exists, and asks at least once. Throws StoreTimeout after `timeout`, which
  // names the key and `setter`, the rank that should have set it.
  std::string get(const std::string& key, std::chrono::nanoseconds timeout,
                  std::optional<int> setter = std::nullopt);
  virtual std::string description() const = 0;  // "redis at 10.0.0.1:6379"
  // Returns whether the store cannot hold anything of another run.
  virtual bool fresh() const { return false; }
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_STORE_H_
