// The options of one plugin, which users give as [device.<plugin>] and [comm.<plugin>].
#ifndef PLUGINS_HOST_OPTIONS_H_
#define PLUGINS_HOST_OPTIONS_H_

#include <map>
#include <string>
#include <vector>

#include "plugins/host/plugin.h"

namespace plugins::host {

using Options = std::map<std::string, std::string>;

// Returns "" if the plugin declares all these options, else what is wrong with one of them:
// `device.cpu.threds = 1: the plugin has no such key, did you mean "threads"?; known: threads`.
// `section` is "device.cpu".
std::string fault_of(const Options& options, const std::vector<Plugin::OptionSpec>& known,
                     const std::string& section);

// Options in the form of the contract. Their texts belong to the map, which must live longer.
class COptions {
 public:
  explicit COptions(const Options& options);
  COptions(const COptions&) = delete;
  COptions& operator=(const COptions&) = delete;

  const rt_option* const* data() const { return pointers_.data(); }
  uint32_t size() const { return static_cast<uint32_t>(pointers_.size()); }

 private:
  std::vector<rt_option> values_;
  std::vector<const rt_option*> pointers_;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_OPTIONS_H_
