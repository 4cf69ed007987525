// Counts the calls of malloc and its kind (operator new ends there too) by every thread and library
// of the process.
#ifndef TESTS_RUNTIME_EXEC_MALLOC_COUNT_H_
#define TESTS_RUNTIME_EXEC_MALLOC_COUNT_H_

#include <cstdint>

namespace runtime::test {

int64_t malloc_count();

// While one lives, every call is attributed to the shared library that made it (operator new counts
// for its caller), which is slow. One at a time.
class MallocAttribution {
 public:
  MallocAttribution();
  ~MallocAttribution();
  int64_t by_onednn() const;  // calls from oneDNN and OpenMP, since it was made
  int64_t by_others() const;
};

}  // namespace runtime::test

#endif  // TESTS_RUNTIME_EXEC_MALLOC_COUNT_H_
