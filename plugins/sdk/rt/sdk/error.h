// Errors at the C border: throw inside a plugin, return a status outside.
#ifndef RT_SDK_ERROR_H_
#define RT_SDK_ERROR_H_

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "rt/common.h"

namespace rt::sdk {

// The exception that plugin code throws; guard() turns it into a status and an rt_error.
class Error : public std::exception {
 public:
  // `code` is RT_ERROR_*, `scope` is RT_SCOPE_*.
  Error(rt_status code, std::string message, int32_t scope = RT_SCOPE_OPERATION)
      : code_(code), scope_(scope), message_(std::move(message)) {}
  // Adds the code of the vendor's library. `domain` names the library: "CUDA". Returns *this.
  Error& native(const char* domain, int64_t code) {
    native_domain_ = domain;
    native_code_ = code;
    return *this;
  }
  // Returns the message.
  const char* what() const noexcept override { return message_.c_str(); }
  // Returns RT_ERROR_*.
  rt_status code() const { return code_; }
  // Returns RT_SCOPE_*: the widest object that can no longer be used.
  int32_t scope() const { return scope_; }
  // Return what native() was given; 0 and "" without it.
  int64_t native_code() const { return native_code_; }
  const std::string& native_domain() const { return native_domain_; }

 private:
  rt_status code_;
  int32_t scope_;
  int64_t native_code_ = 0;
  std::string native_domain_;
  std::string message_;
};

// Formats like printf into a string and cuts the result after 1023 bytes.
__attribute__((format(printf, 1, 2))) inline std::string format(const char* pattern, ...) {
  char text[1024];
  std::va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof(text), pattern, arguments);
  va_end(arguments);
  return text;
}

// Copies `text` into a fixed array, cuts it to fit, and always adds the terminating NUL.
template <std::size_t N>
void copy_text(char (&destination)[N], std::string_view text) noexcept {
  const std::size_t length = text.size() < N - 1 ? text.size() : N - 1;
  if (length > 0) std::memcpy(destination, text.data(), length);
  destination[length] = '\0';
}

// Fills the caller's rt_error, if there is one, and returns `code`. Allocates nothing, so that it
// can also report that memory has run out.
inline rt_status fill_error(rt_error* error, rt_status code, std::string_view message,
                            int32_t scope = RT_SCOPE_OPERATION) noexcept {
  if (error != nullptr && error->size >= RT_ERROR_SIZE_V1) {
    error->code = code;
    error->scope = scope;
    error->native_code = 0;
    copy_text(error->native_domain, "");
    copy_text(error->message, message);
  }
  return code;
}
// The same with everything that an exception holds.
inline rt_status fill_error(rt_error* error, const Error& from) noexcept {
  fill_error(error, from.code(), from.what(), from.scope());
  if (error != nullptr && error->size >= RT_ERROR_SIZE_V1) {
    error->native_code = from.native_code();
    copy_text(error->native_domain, from.native_domain());
  }
  return from.code();
}

// Calls `body`, which returns void or rt_status, and returns its status. Turns every exception into
// a status and fills `error`, so that none crosses the C border.
template <typename Body>
rt_status guard(rt_error* error, Body&& body) noexcept {
  try {
    if constexpr (std::is_same_v<decltype(body()), void>) {
      body();
      return RT_OK;
    } else {
      return body();
    }
  } catch (const Error& e) {
    return fill_error(error, e);
  } catch (const std::bad_alloc&) {
    return fill_error(error, RT_ERROR_OUT_OF_MEMORY, "out of host memory");
  } catch (const std::exception& e) {
    return fill_error(error, RT_ERROR_INTERNAL, e.what());
  } catch (...) {
    return fill_error(error, RT_ERROR_INTERNAL, "unknown exception");
  }
}

}  // namespace rt::sdk

#endif  // RT_SDK_ERROR_H_
