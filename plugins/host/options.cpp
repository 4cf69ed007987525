// Keeps keys and values in the form of rt_option for the time of a call.
#include "plugins/host/options.h"

#include <algorithm>

#include "plugins/host/nearest.h"

namespace plugins::host {

std::string fault_of(const Options& options, const std::vector<Plugin::OptionSpec>& known,
                     const std::string& section) {
  std::vector<std::string> keys;
  for (const auto& option : known) keys.push_back(option.key);
  for (const auto& [key, value] : options) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      return section + "." + key + " = " + value + ": the plugin has no such key" +
             suggestion(key, keys);
  }
  return "";
}

COptions::COptions(const Options& options) {
  for (const auto& [key, value] : options)
    values_.push_back({sizeof(rt_option), 0, key.c_str(), value.c_str()});
  for (const rt_option& value : values_) pointers_.push_back(&value);
}

}  // namespace plugins::host
