#ifndef TESTS_COLLECTIVES_SUPPORT_MEMORY_H_
#define TESTS_COLLECTIVES_SUPPORT_MEMORY_H_

#include <malloc.h>

#include <climits>

namespace collectives::testing {

// Freed buffers are used again: new pages for each of the large ones, which the kernel fills with
// zeros, take longer than the checks. Before the first thread.
inline void keep_freed_memory() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

}  // namespace collectives::testing

#endif  // TESTS_COLLECTIVES_SUPPORT_MEMORY_H_
