// Counts open descriptors without /proc, and raises the soft limit.
#include "runtime/system/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>

#include "runtime/error.h"

namespace runtime::system {
namespace {

// Descriptors have the lowest numbers that are free, so few are above this one.
constexpr rlim_t kSearched = 65536;

// Does not read /proc, which may not be mounted and needs a descriptor itself.
uint64_t open_descriptors(rlim_t limit) {
  uint64_t open = 0;
  for (rlim_t i = 0; i < std::min(limit, kSearched); ++i)
    open += ::fcntl(static_cast<int>(i), F_GETFD) >= 0 ? 1 : 0;
  return open;
}

}  // namespace

void raise_descriptor_limit() noexcept {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void require_descriptors(uint64_t count, const std::string& what) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count + kSearched) return;
  const uint64_t open = open_descriptors(limit.rlim_cur);
  if (open + count <= limit.rlim_cur) return;
  throw CommunicationError(what + " needs " + std::to_string(count) + " open files beside the " +
                           std::to_string(open) + " that are open, but the limit is " +
                           std::to_string(limit.rlim_cur) + " (the hard limit is " +
                           std::to_string(limit.rlim_max) + "); raise both to at least " +
                           std::to_string(open + count) + " (ulimit -n " +
                           std::to_string(open + count) + "), or start fewer ranks");
}

}  // namespace runtime::system
