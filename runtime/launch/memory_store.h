// A key-value store for ranks that are threads of one process.
#ifndef RUNTIME_LAUNCH_MEMORY_STORE_H_
#define RUNTIME_LAUNCH_MEMORY_STORE_H_

#include <map>
#include <mutex>

#include "runtime/launch/store.h"

namespace runtime::launch {

// Values in host memory, under a mutex.
class MemoryStore : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
  }
  std::optional<std::string> try_get(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    return found->second;
  }
  std::string description() const override { return "store of this process"; }
  bool fresh() const override { return true; }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_MEMORY_STORE_H_
