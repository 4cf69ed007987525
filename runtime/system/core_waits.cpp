// Reads what the kernel counts for each thread.
#include "runtime/system/core_waits.h"

#include <cstdint>
#include <filesystem>
#include <fstream>

namespace runtime::system {

namespace fs = std::filesystem;

std::chrono::nanoseconds waited_for_cores() {
  std::chrono::nanoseconds waited{0};
  std::error_code error;
  for (fs::directory_iterator thread("/proc/self/task", error), end; !error && thread != end;
       thread.increment(error)) {
    int64_t ran = 0, wait = 0;
    if (std::ifstream(thread->path() / "schedstat") >> ran >> wait)
      waited += std::chrono::nanoseconds(wait);
  }
  return waited;
}

}  // namespace runtime::system
