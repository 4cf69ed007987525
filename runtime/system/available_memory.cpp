// Takes the least of what the machine, resource limits and control groups leave.
#include "runtime/system/available_memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include "runtime/error.h"
#include "runtime/system/control_groups.h"

namespace runtime::system {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();
// Smaller allocations are not checked; if one fails, the allocator throws std::bad_alloc.
constexpr uint64_t kSmall = uint64_t{16} << 20;

uint64_t left_of(uint64_t limit, uint64_t used) { return limit > used ? limit - used : 0; }

// Returns the number after `key` in a file such as /proc/meminfo, converted from KiB to bytes.
uint64_t kib_of(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    return std::stoull(line.substr(key.size())) << 10;
  }
  return kUnknown;
}

uint64_t left_of_resource(int resource, const std::string& status_key) {
  rlimit limit = {};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return kUnknown;
  if (limit.rlim_cur == RLIM_INFINITY) return kUnknown;
  const uint64_t used = kib_of("/proc/self/status", status_key);
  return used == kUnknown ? limit.rlim_cur : left_of(limit.rlim_cur, used);
}

}  // namespace

std::string mib(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

uint64_t available_memory() {
  return std::min({kib_of("/proc/meminfo", "MemAvailable:"), memory_left_in_groups(),
                   left_of_resource(RLIMIT_AS, "VmSize:"),
                   left_of_resource(RLIMIT_DATA, "VmData:")});
}

void require_memory(uint64_t bytes, const std::string& what, const std::string& remedy) {
  if (bytes < kSmall) return;
  const uint64_t available = available_memory();
  if (available == kUnknown || bytes <= available - available / 16) return;
  throw DataError(what + " takes " + mib(bytes) + ", but " + mib(available) +
                  " of memory are available; " + remedy);
}

void describe_memory(char (&text)[200]) noexcept {
  const auto page = static_cast<unsigned long>(::sysconf(_SC_PAGESIZE));
  const auto mib_of_pages = [page](unsigned long pages) { return pages * (page >> 10) >> 10; };
  char statm[64] = {};
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  const bool known = file >= 0 && ::read(file, statm, sizeof statm - 1) > 0;
  if (file >= 0) ::close(file);
  const unsigned long used = known ? std::strtoul(statm, nullptr, 10) : 0;
  const auto free = static_cast<unsigned long>(::sysconf(_SC_AVPHYS_PAGES));
  char limit[32] = "none";
  rlimit space = {};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    std::snprintf(limit, sizeof limit, "%lu MiB", static_cast<unsigned long>(space.rlim_cur >> 20));
  std::snprintf(
      text, sizeof text,
      "%lu MiB of address space are in use, the limit (ulimit -v) is %s, and %lu MiB of the "
      "machine's memory are free",
      mib_of_pages(used), limit, mib_of_pages(free));
}

}  // namespace runtime::system
