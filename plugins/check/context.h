// What every check gets: the plugin under test, its device, and the reference.
#ifndef PLUGINS_CHECK_CONTEXT_H_
#define PLUGINS_CHECK_CONTEXT_H_

#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugins/host/device.h"
#include "plugins/host/plugin.h"

namespace plugins::check {

// The check does not apply; the text says why.
class Skip : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What the user asked for.
struct Setup {
  std::filesystem::path library;               // absolute
  std::filesystem::path reference;             // library of the plugin `reference`
  int32_t device = 0;                          // index of the device
  std::map<std::string, std::string> options;  // of the device or the communicator
  bool quick = false;                          // fewer cases of each operation
};

// Loads and opens at first use. One thread at a time; the objects that it returns may be used by
// several.
class Context {
 public:
  explicit Context(Setup setup) : setup_(std::move(setup)) {}

  const Setup& setup() const { return setup_; }
  std::shared_ptr<host::Plugin> plugin();
  // The tables of the plugin; throw Skip if it does not offer them.
  const rt_device_api& device_api();
  const rt_kernel_api& kernel_api();
  // The device under test, opened with the options of the setup. Throws Skip if the plugin has no
  // devices, and host::Error if it has no device of that index, or the device is not usable.
  std::shared_ptr<host::Device> device();
  // The device that computes every operation as it is defined.
  std::shared_ptr<host::Device> reference();

 private:
  const Setup setup_;
  std::shared_ptr<host::Plugin> plugin_;
  std::shared_ptr<host::Device> device_, reference_;
};

}  // namespace plugins::check

#endif  // PLUGINS_CHECK_CONTEXT_H_
