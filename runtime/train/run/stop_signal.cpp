// The thread that waits for signals, says what they do, and ends the process at the second one.
#include "runtime/train/run/stop_signal.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "runtime/error.h"

namespace runtime::train {

namespace {

constexpr int kLookMs = 500;
constexpr std::chrono::nanoseconds kPatienceWithDevice = std::chrono::seconds(10);

sigset_t signals_that_are_not_ignored() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    struct sigaction action;
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      sigaddset(&set, signal);
  }
  return set;
}

// Begins a new line on a terminal, where the cursor may stand behind a bar or behind "^C".
void say(int signal, const std::string& text) {
  if (text.empty()) return;
  dprintf(STDERR_FILENO, "%sSIG%s: %s\n", isatty(STDERR_FILENO) != 0 ? "\n" : "",
          sigabbrev_np(signal), text.c_str());
}

}  // namespace

StopSignal::StopSignal(Texts texts, AskSilence silence)
    : texts_(std::move(texts)), silence_(std::move(silence)) {
  const sigset_t stops = signals_that_are_not_ignored();
  const int signals = signalfd(-1, &stops, SFD_CLOEXEC);
  end_ = signals < 0 ? -1 : eventfd(0, EFD_CLOEXEC);
  if (end_ < 0) {
    const std::string why = std::strerror(errno);
    if (signals >= 0) close(signals);
    throw DeviceError("cannot wait for signals: " + why + "; see 'ulimit -n'");
  }
  pthread_sigmask(SIG_BLOCK, &stops, &before_);
  taker_ = std::thread(&StopSignal::take, this, signals, end_);
}

StopSignal::~StopSignal() {
  eventfd_write(end_, 1);
  taker_.join();
  close(end_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

// What is not answered yet is most likely a step that takes long, unless it takes much longer than
// every one before.
void StopSignal::end_if_silent() const {
  const auto silence = silence_ ? silence_() : std::nullopt;
  if (saved_ || !silence || silence->time < std::max(kPatienceWithDevice, 2 * silence->longest))
    return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(silence->time).count();
  say(first_, "the device has not answered for " + std::to_string(seconds) + " s: " +
                  silence->place + "; the program ends without saving what was not saved yet");
  _exit(static_cast<int>(ExitCode::kPlugin));
}

void StopSignal::take(int signals, int end) {
  pollfd polled[2] = {{signals, POLLIN, 0}, {end, POLLIN, 0}};
  for (;;) {
    const int ready = poll(polled, 2, first_ == 0 ? -1 : kLookMs);
    if (ready == 0) end_if_silent();
    if (ready <= 0) continue;
    if (polled[1].revents != 0) break;
    if (polled[0].revents == 0) continue;
    signalfd_siginfo info;
    if (read(signals, &info, sizeof(info)) != sizeof(info)) continue;
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGUSR1) {
      after_checkpoint_ = true;
      continue;
    }
    if (signal == SIGUSR2) {
      say(signal, texts_.question);
      ++questions_;
      continue;
    }
    const bool second = first_ != 0;
    if (!saved_) say(signal, second ? texts_.second : texts_.first);
    if (second) _exit(128 + first_);
    first_ = signal;
  }
  close(signals);
}

}  // namespace runtime::train
