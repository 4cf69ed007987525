// Counts the calls of malloc and related functions (operator new calls malloc) by all threads and
// libraries of the process.
#ifndef TESTS_RUNTIME_EXEC_MALLOC_COUNT_H_
#define TESTS_RUNTIME_EXEC_MALLOC_COUNT_H_

#include <cstdint>

namespace runtime::test {

int64_t malloc_count();

// While an instance lives, every call is attributed to the shared library that made it (operator
// new counts for its caller). This is slow. Only one instance may exist at a time.
class MallocAttribution {
 public:
  MallocAttribution();
  ~MallocAttribution();
  int64_t by_onednn() const;  // calls by oneDNN and OpenMP since this instance was made
  int64_t by_others() const;
};

}  // namespace runtime::test

#endif  // TESTS_RUNTIME_EXEC_MALLOC_COUNT_H_
