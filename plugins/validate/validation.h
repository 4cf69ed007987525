// Checks every call between the host and its plugins, if it is asked to.
#ifndef PLUGINS_VALIDATE_VALIDATION_H_
#define PLUGINS_VALIDATE_VALIDATION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugins/host/interposer.h"

namespace plugins::validate {

struct Tracker;

// Puts checks around each function of a plugin's tables. Thread-safe. Equivalent to: the validation
// layers of Vulkan, compute-sanitizer.
class Validation : public host::Interposer {
 public:
  // `log` gets faults that are found in calls which cannot fail; it may be empty.
  explicit Validation(std::function<void(const std::string&)> log);

  // The destructor of the result reports objects that still live.
  std::unique_ptr<host::InterposedPlugin> wrap(const std::string& name, void* self,
                                               const host::Tables& plain, uint32_t minor) override;
  void throw_findings() const override;
  // The text of each fault so far, in the order in which they were found.
  std::vector<std::string> findings() const;

 private:
  std::shared_ptr<Tracker> tracker_;
};

}  // namespace plugins::validate

#endif  // PLUGINS_VALIDATE_VALIDATION_H_
