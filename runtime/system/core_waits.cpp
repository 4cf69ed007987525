// Reads what the kernel counts for each thread.
#include "runtime/system/core_waits.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace runtime::system {

namespace fs = std::filesystem;

namespace {

// A thread that is woken waits no longer than this for a core that is free.
constexpr int64_t kWakingNs = 50000;

}  // namespace

std::chrono::nanoseconds CoreWaits::waited() {
  int64_t waits_ns = 0, runs = 0;
  std::error_code error;
  for (fs::directory_iterator thread("/proc/self/task", error), end; !error && thread != end;
       thread.increment(error)) {
    int64_t ran = 0, wait = 0, times = 0;
    if (!(std::ifstream(thread->path() / "schedstat") >> ran >> wait >> times)) continue;
    waits_ns += wait;
    runs += times;
  }
  const int64_t woken = std::max<int64_t>(runs - runs_, 0);
  const int64_t more = waits_ns - waits_ns_ - woken * kWakingNs;
  if (begun_) waited_ += std::chrono::nanoseconds(std::max<int64_t>(more, 0));
  waits_ns_ = waits_ns;
  runs_ = runs;
  begun_ = true;
  return waited_;
}

}  // namespace runtime::system
