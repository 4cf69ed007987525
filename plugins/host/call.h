// The only way in which the host calls into a plugin: exceptions stop here, and error codes become
// plugins::host::Error.
#ifndef PLUGINS_HOST_CALL_H_
#define PLUGINS_HOST_CALL_H_

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "plugins/host/error.h"
#include "plugins/host/printable.h"

namespace plugins::host {

// Throws Error (RT_ERROR_INTERNAL) because an exception escaped from a C function of a plugin.
// `what` says which call it was.
[[noreturn]] inline void throw_crossed(const std::string& what, const char* text) {
  throw Error(RT_ERROR_INTERNAL, what + ": the plugin let an exception cross the C border: " +
                                     printable(text) + "; plugins must answer with a status");
}

// Calls `body(rt_error*)` and returns its status; throws Error if `body` throws. The rt_error gets
// an empty message, but its 1 KiB are not cleared, because that would take a noticeable part of a
// short call such as a launch. `describe` returns the text that says what was tried. It is called
// only after an error, so that a successful call allocates nothing.
template <typename Describe, typename Body>
rt_status call_status(rt_error& error, Describe&& describe, Body&& body) {
  error.size = sizeof(rt_error);
  error.code = RT_OK;
  error.scope = RT_SCOPE_OPERATION;
  error.reserved = 0;
  error.native_code = 0;
  error.native_domain[0] = '\0';
  error.message[0] = '\0';
  try {
    return body(&error);
  } catch (const std::exception& e) {
    throw_crossed(describe(), e.what());
  } catch (...) {
    throw_crossed(describe(), "not a std::exception");
  }
}

// Like call_status, but throws Error unless the status is RT_OK.
template <typename Describe, typename Body>
void call(Describe&& describe, Body&& body) {
  rt_error error;
  const rt_status status = call_status(error, describe, std::forward<Body>(body));
  if (status != RT_OK) [[unlikely]] {
    check(status, error, describe());
  }
}

// For functions that may return RT_NOT_READY: returns false for RT_NOT_READY and true for RT_OK;
// throws Error for every other status.
template <typename Describe, typename Body>
bool call_ready(Describe&& describe, Body&& body) {
  rt_error error;
  const rt_status status = call_status(error, describe, std::forward<Body>(body));
  if (status == RT_NOT_READY) return false;
  if (status != RT_OK) check(status, error, describe());
  return true;
}

}  // namespace plugins::host

#endif  // PLUGINS_HOST_CALL_H_
