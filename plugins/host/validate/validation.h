// Checks every call between the host and its plugins, if it is asked to.
#ifndef PLUGINS_HOST_VALIDATE_VALIDATION_H_
#define PLUGINS_HOST_VALIDATE_VALIDATION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugins/host/tables.h"

namespace plugins::host::validate {

struct Instance;
struct Ledger;

// What the validated plugins of a registry have in common. Plugins that exchange objects (a
// communicator gets streams and devices) must share one. Thread-safe. Equivalent to: the validation
// layers of Vulkan, compute-sanitizer.
class Validation {
 public:
  // `log` gets faults that are found in calls which cannot fail; it may be empty.
  explicit Validation(std::function<void(const std::string&)> log);
  ~Validation();
  Validation(const Validation&) = delete;
  Validation& operator=(const Validation&) = delete;

  // The text of each fault so far, in the order in which they were found.
  std::vector<std::string> findings() const;
  // Throws Error with the first fault, if there is one. A fault that was found in a call that
  // cannot fail (destroy, free, close) has perhaps reached nobody yet.
  void throw_findings() const;

 private:
  friend class ValidatedPlugin;
  std::unique_ptr<Ledger> ledger_;
};

// The tables of one instance of a plugin, with checks around each function.
class ValidatedPlugin {
 public:
  // `self` and `plain` are the plugin's own.
  ValidatedPlugin(std::shared_ptr<Validation> validation, const std::string& name, void* self,
                  const Tables& plain, uint32_t minor = RT_ABI_MINOR);
  // Reports objects that still live: the instance is shut down next.
  ~ValidatedPlugin();
  ValidatedPlugin(const ValidatedPlugin&) = delete;
  ValidatedPlugin& operator=(const ValidatedPlugin&) = delete;

  // What the host uses in place of the plugin's own. Tables that know no object of these (readers,
  // operations, native handles) are the plugin's own.
  const Tables& tables() const { return tables_; }
  void* self() const;
  // Gives an object that these tables have made a name for findings: "layer 'conv1', conv2d".
  void name(const void* object, const std::string& text) const;

 private:
  std::shared_ptr<Validation> validation_;
  std::unique_ptr<Instance> instance_;
  Tables tables_;
};

}  // namespace plugins::host::validate

#endif  // PLUGINS_HOST_VALIDATE_VALIDATION_H_
