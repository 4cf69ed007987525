#include "runtime/train/stop_signal.h"

#include <pthread.h>

namespace runtime::train {

StopSignal::StopSignal() {
  sigemptyset(&blocked_);
  sigaddset(&blocked_, SIGINT);
  sigaddset(&blocked_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked_, &before_);
}

StopSignal::~StopSignal() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

int StopSignal::pending() {
  if (taken_ != 0) return taken_;
  const timespec no_wait{};
  const int signal = sigtimedwait(&blocked_, nullptr, &no_wait);
  if (signal <= 0) return 0;
  taken_ = signal;
  pthread_sigmask(SIG_UNBLOCK, &blocked_, nullptr);
  return taken_;
}

}  // namespace runtime::train
