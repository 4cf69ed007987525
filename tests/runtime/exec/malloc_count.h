// Counts the calls of malloc and its kind (operator new ends there too) by every thread and library
// of the process.
#ifndef TESTS_RUNTIME_EXEC_MALLOC_COUNT_H_
#define TESTS_RUNTIME_EXEC_MALLOC_COUNT_H_

#include <cstdint>

namespace runtime::test {

int64_t malloc_count();

}  // namespace runtime::test

#endif  // TESTS_RUNTIME_EXEC_MALLOC_COUNT_H_
