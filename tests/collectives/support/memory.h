// Keeps freed memory in a process whose test allocates large buffers again and again.
#ifndef TESTS_COLLECTIVES_SUPPORT_MEMORY_H_
#define TESTS_COLLECTIVES_SUPPORT_MEMORY_H_

#include <malloc.h>

#include <climits>

namespace collectives::testing {

// Makes malloc reuse freed buffers. Otherwise each large buffer gets new pages, which the kernel
// fills with zeros, and that takes longer than the checks. Call it before the first thread starts.
inline void keep_freed_memory() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

}  // namespace collectives::testing

#endif  // TESTS_COLLECTIVES_SUPPORT_MEMORY_H_
