// Prints a back trace from a signal handler, and lets the signal end the process.
#include "runtime/cli/crash.h"

#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <string_view>

namespace runtime::cli {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

void write_error(std::string_view text) noexcept {
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) {  // nothing can report this
  }
}

// Uses only what works in a handler: backtrace() has been called before, so that it loads nothing.
void on_crash(int signal) {
  write_error("error: the process crashes (SIG");
  const char* const name = sigabbrev_np(signal);
  write_error(name == nullptr ? "?" : name);
  write_error("); it is in these functions, the innermost first:\n");
  std::array<void*, 64> frames;
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  backtrace_symbols_fd(frames.data(), depth, STDERR_FILENO);
  write_error(
      "most likely at fault is a plugin, whose library is among them or which wrote into memory of "
      "others; `runtime plugins check LIBRARY` tries a plugin against the contract\n");
  raise(signal);  // the handler was removed, so this ends the process
}

}  // namespace

void report_crashes() {
  void* frame = nullptr;
  backtrace(&frame, 1);
  if (kSanitized) return;
  struct sigaction action = {};
  action.sa_handler = on_crash;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    sigaction(signal, &action, nullptr);
}

}  // namespace runtime::cli
