// How long the threads of this process have waited for a core.
#ifndef RUNTIME_SYSTEM_CORE_WAITS_H_
#define RUNTIME_SYSTEM_CORE_WAITS_H_

#include <chrono>

namespace runtime::system {

// The sum over the threads of this process, since each began, of the time in which the thread could
// have run and had no core: the kernel counts it in /proc/<pid>/task/<thread>/schedstat. What ended
// threads have waited is not in it, so that it may fall. 0 where the kernel does not count. Any
// thread may call it.
std::chrono::nanoseconds waited_for_cores();

}  // namespace runtime::system

#endif  // RUNTIME_SYSTEM_CORE_WAITS_H_
