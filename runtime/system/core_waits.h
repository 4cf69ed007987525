// How long the threads of this process have waited for a core.
#ifndef RUNTIME_SYSTEM_CORE_WAITS_H_
#define RUNTIME_SYSTEM_CORE_WAITS_H_

#include <chrono>
#include <cstdint>

namespace runtime::system {

// A counter, which begins with 0. One thread uses it.
class CoreWaits {
 public:
  CoreWaits() { waited(); }
  // The sum, over the threads of this process and the time since the counter was made, of the time
  // in which a thread could have run and had no core: the kernel counts it in
  // /proc/self/task/<thread>/schedstat. The few microseconds that it takes to wake a thread on a
  // free core are left out, as is what threads have waited that ended since the call before. 0
  // where the kernel does not count.
  std::chrono::nanoseconds waited();

 private:
  int64_t waits_ns_ = 0, runs_ = 0;  // of all threads at the latest call, as the kernel counts
  bool begun_ = false;
  std::chrono::nanoseconds waited_{0};
};

}  // namespace runtime::system

#endif  // RUNTIME_SYSTEM_CORE_WAITS_H_
