// Replaces malloc, counts the allocations of a thread, and prints where they came from.
#include "tests/runtime/exec/malloc_count.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

// glibc's own names of the functions that are replaced below.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace {

std::atomic<int64_t> calls = 0;  // constant-initialised: the dynamic loader calls malloc first
std::atomic<bool> attributing = false;
std::atomic<int64_t> by_onednn = 0, by_others = 0;
thread_local bool inside = false;  // backtrace and dladdr may call malloc themselves

bool comes_from_onednn() {
  void* frames[24];
  const int count = backtrace(frames, 24);
  Dl_info own{}, caller{};
  dladdr(reinterpret_cast<void*>(&comes_from_onednn), &own);
  for (int i = 0; i < count; ++i) {
    if (dladdr(frames[i], &caller) == 0 || caller.dli_fbase == own.dli_fbase) continue;
    if (std::strstr(caller.dli_fname, "libstdc++") != nullptr) continue;
    return std::strstr(caller.dli_fname, "libdnnl") != nullptr ||
           std::strstr(caller.dli_fname, "libgomp") != nullptr;
  }
  return false;
}

void count_call() {
  ++calls;
  if (!attributing || inside) return;
  inside = true;
  ++(comes_from_onednn() ? by_onednn : by_others);
  inside = false;
}

}  // namespace

namespace runtime::test {

int64_t malloc_count() { return calls.load(); }

MallocAttribution::MallocAttribution() {
  void* frames[2];
  backtrace(frames, 2);  // makes backtrace load libgcc now, which allocates
  ::by_onednn = ::by_others = 0;
  attributing = true;
}

MallocAttribution::~MallocAttribution() { attributing = false; }
int64_t MallocAttribution::by_onednn() const { return ::by_onednn; }
int64_t MallocAttribution::by_others() const { return ::by_others; }

}  // namespace runtime::test

extern "C" {

void* malloc(size_t size) {
  count_call();
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  count_call();
  return __libc_calloc(count, size);
}

void* realloc(void* memory, size_t size) {
  count_call();
  return __libc_realloc(memory, size);
}

void* memalign(size_t alignment, size_t size) {
  count_call();
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  count_call();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** memory, size_t alignment, size_t size) {
  count_call();
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"
