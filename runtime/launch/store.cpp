#include "runtime/launch/store.h"

#include <cstdio>

#include "runtime/launch/poll.h"

namespace runtime::launch {

std::string Store::get(const std::string& key, std::chrono::nanoseconds timeout) {
  std::optional<std::string> value;
  if (poll_until(timeout, [&] { return (value = try_get(key)).has_value(); })) return *value;
  throw StoreTimeout(description() + ": key '" + key + "' was not set within " +
                     seconds_text(timeout) + "; see the output of the rank that sets it");
}

std::string seconds_text(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", std::chrono::duration<double>(time).count());
  return text;
}

}  // namespace runtime::launch
