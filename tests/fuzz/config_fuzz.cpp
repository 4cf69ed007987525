// Any text is either a configuration, whose resolved form reads back to itself, or is refused with
// a ConfigurationError.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "runtime/config/config.h"
#include "runtime/error.h"
#include "runtime/model/layer_types.h"

namespace {

// A first line "--set section.key=value" becomes an override.
runtime::config::Config load(std::string_view text) {
  using runtime::config::Override;
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view first = text.substr(0, end);
  const size_t equals = first.find('=');
  std::vector<Override> overrides;
  if (first.starts_with("--set ") && equals != std::string_view::npos) {
    overrides.push_back(
        {std::string(first.substr(6, equals - 6)), std::string(first.substr(equals + 1))});
    text.remove_prefix(end);
  }
  return runtime::config::load_text(text, "fuzz", overrides, "", runtime::model::layer_types());
}

// An exception from here is a finding: a configuration that was accepted once must be accepted
// again.
void read_back(const runtime::config::Config& config) {
  const std::string resolved = runtime::config::to_toml(config);
  const auto again =
      runtime::config::load_text(resolved, "fuzz", {}, "", runtime::model::layer_types());
  if (runtime::config::to_toml(again) != resolved) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  runtime::config::Config config;
  try {
    config = load({reinterpret_cast<const char*>(data), size});
  } catch (const runtime::ConfigurationError&) {
    return 0;
  }
  read_back(config);
  return 0;
}
