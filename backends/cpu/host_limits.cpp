// Tries, before oneDNN would, whether memory can still be had.
#include "backends/cpu/host_limits.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstddef>
#include <mutex>
#include <string>

#include "backends/cpu/system.h"
#include "rt/sdk/error.h"

namespace backends::cpu {
namespace {

using rt::sdk::Error;
using rt::sdk::format;

// oneDNN takes up to 15 MiB for the code of its matrix products. Between the check and that, other
// threads of the process may begin: each reserves a stack (8 MiB), and with its first allocation
// glibc's malloc maps 128 MiB for an arena, half of which it gives back.
constexpr size_t kHeadroom = size_t{192} << 20;

double mib(double bytes) { return bytes / (1 << 20); }

// "unlimited" or, for example, "300 MiB".
std::string address_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return format("%.0f MiB", mib(static_cast<double>(limit.rlim_cur)));
}

}  // namespace

// The map counts for the limit of the address space alone. One thread at a time: ranks of one
// process try together, and would take the room from each other.
void require_headroom() {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  void* const place =
      mmap(nullptr, kHeadroom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place != MAP_FAILED) {
    munmap(place, kHeadroom);
    return;
  }
  throw Error(RT_ERROR_OUT_OF_MEMORY,
              format("cpu:0: less than %.0f MiB of address space are left for making kernels "
                     "(limit: %s; memory available: %.0f MiB); raise the limit (ulimit -v)",
                     mib(kHeadroom), address_limit().c_str(),
                     mib(static_cast<double>(system_memory().available_bytes))),
              RT_SCOPE_DEVICE);
}

}  // namespace backends::cpu
