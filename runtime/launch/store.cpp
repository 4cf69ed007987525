// Waits for a key, and names the rank that has not set it in time.
#include "runtime/launch/store.h"

#include "plugins/host/text.h"
#include "runtime/launch/poll.h"

namespace runtime::launch {

std::optional<std::string> Store::wait_for(const std::string& key,
                                           std::chrono::nanoseconds at_most) {
  std::optional<std::string> value;
  poll_until(at_most, [&] { return (value = try_get(key)).has_value(); });
  return value;
}

std::string Store::get(const std::string& key, std::chrono::nanoseconds timeout,
                       std::optional<int> setter) {
  if (std::optional<std::string> value = wait_for(key, timeout)) return *std::move(value);
  const std::string who = setter ? "rank " + std::to_string(*setter) : "the rank that sets it";
  throw StoreTimeout((setter ? who + " does not answer: " : "") + description() + ": key '" + key +
                     "' was not set within " + plugins::host::seconds_text(timeout) +
                     "; see the output of " + who);
}

}  // namespace runtime::launch
