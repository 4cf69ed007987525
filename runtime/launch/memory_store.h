// A key-value store for ranks that are threads of one process.
#ifndef RUNTIME_LAUNCH_MEMORY_STORE_H_
#define RUNTIME_LAUNCH_MEMORY_STORE_H_

#include <fcntl.h>
#include <sys/eventfd.h>

#include <map>
#include <mutex>
#include <utility>

#include "plugins/host/descriptor.h"
#include "runtime/launch/bells.h"
#include "runtime/launch/store.h"

namespace runtime::launch {

// Values in host memory, under a mutex.
class MemoryStore : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    if (const auto event = events_.find(key); event != events_.end())
      ::eventfd_write(event->second.get(), 1);
  }
  std::optional<std::string> try_get(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    return found->second;
  }
  std::unique_ptr<watch::Bell> bell(const std::string& key) override {
    plugins::host::Descriptor copy;
    {
      const std::lock_guard lock(mutex_);
      plugins::host::Descriptor& event = events_[key];
      if (!event) event = plugins::host::Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      copy = plugins::host::Descriptor(::fcntl(event.get(), F_DUPFD_CLOEXEC, 0));
    }
    return copy ? event_bell(*this, key, std::move(copy)) : asking_bell(*this, key);
  }
  std::string description() const override { return "store of this process"; }
  bool fresh() const override { return true; }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
  std::map<std::string, plugins::host::Descriptor> events_;  // of keys for which bells were made
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_MEMORY_STORE_H_
