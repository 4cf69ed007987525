// A clock, and a descriptor that stays readable.
#include "runtime/launch/bells.h"

#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

#include "runtime/launch/store.h"

namespace runtime::launch {
namespace {

using plugins::host::Descriptor;

// A store is also asked this often without an event, in case who sets the key cannot cause one.
constexpr std::chrono::seconds kSeldom{5};

class StoreBell : public watch::Bell {
 public:
  StoreBell(Store& store, std::string key, Descriptor event, bool is_clock)
      : store_(store), key_(std::move(key)), event_(std::move(event)), is_clock_(is_clock) {}
  std::vector<int> descriptors() const override { return {event_.get()}; }
  // The first look is needed because the key may have been set before.
  bool rings() override {
    pollfd entry{.fd = event_.get(), .events = POLLIN, .revents = 0};
    const auto now = std::chrono::steady_clock::now();
    if (found_ || (::poll(&entry, 1, 0) <= 0 && now < next_)) return found_;
    next_ = now + kSeldom;
    uint64_t ticks = 0;
    if (is_clock_) static_cast<void>(!::read(event_.get(), &ticks, sizeof ticks));
    return found_ = store_.try_get(key_).has_value();
  }

 private:
  Store& store_;
  const std::string key_;
  const Descriptor event_;
  const bool is_clock_;
  std::chrono::steady_clock::time_point next_{};
  bool found_ = false;
};

}  // namespace

std::unique_ptr<watch::Bell> asking_bell(Store& store, const std::string& key) {
  Descriptor clock(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  constexpr timespec time{.tv_sec = 0, .tv_nsec = 200'000'000};
  const itimerspec each{.it_interval = time, .it_value = time};
  if (!clock || ::timerfd_settime(clock.get(), 0, &each, nullptr) != 0)
    throw CommunicationError(store.description() + ": cannot wait for '" + key +
                             "': " + std::strerror(errno) + "; raise the limit of open files");
  return std::make_unique<StoreBell>(store, key, std::move(clock), true);
}

std::unique_ptr<watch::Bell> event_bell(Store& store, const std::string& key, Descriptor event) {
  return std::make_unique<StoreBell>(store, key, std::move(event), false);
}

}  // namespace runtime::launch
