// Makes exceptions of statuses, with the plugin's text made printable.
#include "plugins/host/error.h"

#include <array>

#include "plugins/host/printable.h"
#include "rt/communicator.h"

namespace plugins::host {
rt_error make_error() {
  rt_error error{};
  error.size = sizeof(rt_error);
  return error;
}

std::string status_name(rt_status status) {
  static constexpr std::array<const char*, 13> kNames = {"RT_OK",
                                                         "RT_ERROR_INVALID_ARGUMENT",
                                                         "RT_ERROR_UNSUPPORTED",
                                                         "RT_ERROR_OUT_OF_MEMORY",
                                                         "RT_ERROR_UNAVAILABLE",
                                                         "RT_ERROR_TIMEOUT",
                                                         "RT_ERROR_ABORTED",
                                                         "RT_ERROR_DEVICE",
                                                         "RT_ERROR_COMMUNICATION",
                                                         "RT_ERROR_TOO_NEW",
                                                         "RT_ERROR_VERSION",
                                                         "RT_ERROR_INTERNAL",
                                                         "RT_NOT_READY"};
  if (status < 0 || status >= static_cast<rt_status>(kNames.size())) {
    return "status " + std::to_string(status);
  }
  return kNames[static_cast<std::size_t>(status)];
}

void check(rt_status status, const rt_error& error, const std::string& what) {
  if (status == RT_OK) return;
  std::string text = printable_array(error.message);
  if (text.empty()) text = "the plugin gave no message";
  std::string message = what + ": " + text + " [" + status_name(status);
  const std::string domain = printable_array(error.native_domain);
  if (domain == RT_DOMAIN_SILENT_RANK || domain == RT_DOMAIN_LOST_RANK)
    throw Error::of_rank(status, message + "]", error.scope, static_cast<int>(error.native_code));
  if (!domain.empty() || error.native_code != 0) {
    message +=
        ", " + (domain.empty() ? "native" : domain) + " code " + std::to_string(error.native_code);
  }
  throw Error(status, message + "]", error.scope);
}

}  // namespace plugins::host
