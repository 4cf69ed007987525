// Errors at the C interface when no memory is left.
#include "rt/sdk/error.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

namespace {
bool memory_is_gone = false;
}

// The operator is not inlined, because gcc 12 would report free() as not matching `new`.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* const memory = memory_is_gone ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace rt::sdk {
namespace {

struct ReportedError {
  rt_status status;
  std::string message, domain;
  int64_t native_code;
  int32_t scope;
};

// The result of guard() for a `body` that throws when every allocation fails from then on.
template <class Body>
ReportedError answer_without_memory(Body&& body) {
  rt_error error{};
  error.size = sizeof(error);
  error.native_code = 7;
  const rt_status status = guard(&error, [&] {
    memory_is_gone = true;
    body();
  });
  memory_is_gone = false;
  return {status, error.message, error.native_domain, error.native_code, error.scope};
}

TEST(Guard, ReportsWantOfMemoryWithoutMemory) {
  const ReportedError answer = answer_without_memory([] { throw std::bad_alloc(); });
  EXPECT_EQ(answer.status, RT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(answer.message, "out of host memory");
  EXPECT_EQ(answer.native_code, 0);
}

TEST(Guard, ReportsOtherErrorsWithoutMemory) {
  const std::runtime_error known("a text that is longer than what a string holds in itself");
  EXPECT_EQ(answer_without_memory([&] { throw std::runtime_error(known); }).message, known.what());
  const ReportedError unknown = answer_without_memory([] { throw 1; });
  EXPECT_EQ(unknown.status, RT_ERROR_INTERNAL);
  EXPECT_EQ(unknown.message, "unknown exception");
}

TEST(Guard, KeepsAllThatAnErrorHas) {
  rt_error error{};
  error.size = sizeof(error);
  const rt_status status = guard(&error, [] {
    throw Error(RT_ERROR_COMMUNICATION, "the link is down", RT_SCOPE_DEVICE).native("MPI", 42);
  });
  EXPECT_EQ(status, RT_ERROR_COMMUNICATION);
  EXPECT_EQ(error.code, RT_ERROR_COMMUNICATION);
  EXPECT_EQ(error.scope, RT_SCOPE_DEVICE);
  EXPECT_EQ(error.native_code, 42);
  EXPECT_STREQ(error.native_domain, "MPI");
  EXPECT_STREQ(error.message, "the link is down");
  EXPECT_EQ(guard(nullptr, [] { throw std::bad_alloc(); }), RT_ERROR_OUT_OF_MEMORY);
}

}  // namespace
}  // namespace rt::sdk
