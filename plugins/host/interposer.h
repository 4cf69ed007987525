// What may stand between the host and the tables of its plugins, to see every call.
#ifndef PLUGINS_HOST_INTERPOSER_H_
#define PLUGINS_HOST_INTERPOSER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "plugins/host/tables.h"

namespace plugins::host {

// What the host uses in place of one plugin. Its destructor runs before the plugin is shut down.
class InterposedPlugin {
 public:
  virtual ~InterposedPlugin() = default;
  // In place of the plugin's own tables. Readers, operations and native handles are the plugin's.
  virtual const Tables& tables() const = 0;
  // In place of rt_plugin.self, for the functions of the tables device and communicator.
  virtual void* self() const = 0;
  // Gives an object that these tables have made a name for findings: "layer 'conv1', conv2d".
  virtual void name(const void* object, const std::string& text) const = 0;
};

// Wraps the plugins of one registry, which exchange objects: a communicator gets streams and
// devices. Thread-safe. Equivalent to: a layer of Vulkan, an OpenCL layer.
class Interposer {
 public:
  virtual ~Interposer() = default;
  // `name`, `self`, `plain` and `minor` are the plugin's own, which outlive the result.
  virtual std::unique_ptr<InterposedPlugin> wrap(const std::string& name, void* self,
                                                 const Tables& plain, uint32_t minor) = 0;
  // Throws Error with the first fault that was found, if there is one. A fault of a call that
  // cannot fail (destroy, free, close) has perhaps reached nobody yet.
  virtual void throw_findings() const = 0;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_INTERPOSER_H_
