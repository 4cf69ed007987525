#include "tests/runtime/exec/malloc_count.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

// glibc's own names for the functions that are replaced below.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace {
std::atomic<int64_t> calls = 0;  // must be constant-initialised: the loader calls malloc first
}

namespace runtime::test {
int64_t malloc_count() { return calls.load(); }
}  // namespace runtime::test

extern "C" {

void* malloc(size_t size) {
  ++calls;
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  ++calls;
  return __libc_calloc(count, size);
}

void* realloc(void* memory, size_t size) {
  ++calls;
  return __libc_realloc(memory, size);
}

void* memalign(size_t alignment, size_t size) {
  ++calls;
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  ++calls;
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** memory, size_t alignment, size_t size) {
  ++calls;
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"
