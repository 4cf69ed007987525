// Waits with epoll for sockets of all connections, and calls the handler of each.
#include "collectives/mesh/progress_thread.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "collectives/mesh/blocked_signals.h"
#include "rt/sdk/error.h"

namespace collectives::mesh {
namespace {

[[noreturn]] void fail(const char* call) {
  throw rt::sdk::Error(RT_ERROR_COMMUNICATION,
                       rt::sdk::format("cannot watch connections: %s: %s; see 'ulimit -n'", call,
                                       std::strerror(errno)));
}

int control(const Socket& poll, int operation, int file, uint32_t events, void* handler) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = handler;
  return ::epoll_ctl(poll.get(), operation, file, &event);
}

}  // namespace

ProgressThread::ProgressThread()
    : poll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC)) {
  if (!poll_ || !wake_) fail("epoll_create1");
  if (control(poll_, EPOLL_CTL_ADD, wake_.get(), EPOLLIN, nullptr) != 0) fail("epoll_ctl");
  const BlockedSignals inherited;
  thread_ = std::thread(&ProgressThread::run, this);
}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
}

void ProgressThread::add(int file, Handler& handler) {
  const std::lock_guard lock(mutex_);
  handlers_.insert(&handler);
  if (control(poll_, EPOLL_CTL_ADD, file, EPOLLIN, &handler) != 0) fail("epoll_ctl");
}

void ProgressThread::want_output(int file, Handler& handler, bool wanted) {
  const uint32_t events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
  control(poll_, EPOLL_CTL_MOD, file, events, &handler);
}

void ProgressThread::mute(int file) { control(poll_, EPOLL_CTL_DEL, file, 0, nullptr); }

void ProgressThread::remove(int file, Handler& handler) {
  mute(file);
  const std::lock_guard lock(mutex_);
  handlers_.erase(&handler);
}

// epoll_wait() may have returned an event before its handler was removed; such events are skipped.
void ProgressThread::run() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), -1);
    const std::lock_guard lock(mutex_);
    if (over_) return;
    for (int i = 0; i < count; ++i) {
      auto* const handler = static_cast<Handler*>(events[static_cast<std::size_t>(i)].data.ptr);
      if (handlers_.contains(handler)) handler->on_events();
    }
  }
}

}  // namespace collectives::mesh
