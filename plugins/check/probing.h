// Calls with structs of hosts that are older or newer than the plugin, and what has to come of
// them.
#ifndef PLUGINS_CHECK_PROBING_H_
#define PLUGINS_CHECK_PROBING_H_

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "plugins/check/check.h"
#include "plugins/check/grown.h"
#include "plugins/host/error.h"

namespace plugins::check {

// A function of the contract, of which all arguments but the error are given.
using Call = std::function<rt_status(rt_error*)>;

// Calls, and returns the status; the message of the error is checked.
inline rt_status status_of(const std::string& what, const Call& call) {
  Grown<rt_error> error;
  error.value.size = sizeof(rt_error);
  const rt_status status = call(&error.value);
  require(!error.written_beyond(sizeof(rt_error)),
          what + ": the plugin wrote behind the rt_error of the host");
  if (status == RT_OK || status == RT_NOT_READY) return status;
  require(std::memchr(error.value.message, '\0', sizeof(error.value.message)) != nullptr &&
              error.value.message[0] != '\0',
          what + ": the plugin failed without a message that ends in NUL");
  require(error.value.code == status,
          fmt::format("{}: the plugin returned {} and wrote {} into rt_error.code", what,
                      host::status_name(status), host::status_name(error.value.code)));
  return status;
}

// Tries an input that is too short, one with zeros behind it, and one that uses what the plugin
// cannot know. `call` passes the struct on. Frees what a call makes by itself.
template <typename T>
void check_input(const std::string& what, Grown<T>& input, uint32_t size_v1, const Call& call) {
  const auto attempt = [&](uint32_t size, unsigned char tail) {
    input.value.size = size;
    std::memset(input.tail, tail, sizeof(input.tail));
    return status_of(what, call);
  };
  const rt_status longer = attempt(sizeof(T) + Grown<T>::kMore, 0);
  require(longer == RT_OK,
          fmt::format("{} of a later host, {} bytes longer and all of them 0: the answer is {}; "
                      "expected RT_OK, because zero means what earlier releases did",
                      what, Grown<T>::kMore, host::status_name(longer)));
  const rt_status used = attempt(sizeof(T) + Grown<T>::kMore, 1);
  require(used == RT_ERROR_TOO_NEW,
          fmt::format("{} with bytes in use that this plugin cannot know: the answer is {}; "
                      "expected RT_ERROR_TOO_NEW, or the plugin does something else than the host "
                      "asks for",
                      what, host::status_name(used)));
  const rt_status shorter = attempt(size_v1 - 8, 0);
  require(shorter != RT_OK, fmt::format("{} with {} bytes was accepted; the first release has {}",
                                        what, size_v1 - 8, size_v1));
  require(attempt(sizeof(T), 0) == RT_OK, what + " is refused in the size of this release");
}

// Tries an output that is as long as in the first release, and one that is longer than the plugin
// knows.
template <typename T>
void check_output(const std::string& what, uint32_t size_v1,
                  const std::function<rt_status(T*, rt_error*)>& call) {
  for (const uint32_t size :
       {size_v1, static_cast<uint32_t>(sizeof(T)), uint32_t{sizeof(T) + Grown<T>::kMore}}) {
    Grown<T> output;
    output.value.size = size;
    const rt_status status =
        status_of(what, [&](rt_error* error) { return call(&output.value, error); });
    require(status == RT_OK, fmt::format("{} with a struct of {} bytes: {}; expected RT_OK", what,
                                         size, host::status_name(status)));
    const uint32_t end = std::min<uint32_t>(size, sizeof(T));
    require(!output.written_beyond(end),
            fmt::format("{}: the plugin wrote behind the {} bytes of the struct that it knows or "
                        "that the host has",
                        what, end));
  }
  T output{};
  output.size = size_v1 - 8;
  require(status_of(what, [&](rt_error* error) { return call(&output, error); }) != RT_OK,
          fmt::format("{} took a struct of {} bytes; the first release has {}", what, size_v1 - 8,
                      size_v1));
}

}  // namespace plugins::check

#endif  // PLUGINS_CHECK_PROBING_H_
