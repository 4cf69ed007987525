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

// How the reason of a Skip goes on behind the name of a device that cannot be used on this machine.
inline constexpr const char* kUnusable = " is not usable here: ";

// What the user asked for.
struct Setup {
  // A data set of the author's, for the checks of readers.
  struct Sample {
    std::filesystem::path path;  // absolute; empty: there is none
    std::string format;          // empty: the only one
    std::vector<int64_t> shape;  // what a model takes of it
    bool numbers = false;        // for regression
  };

  std::filesystem::path library;               // absolute
  std::filesystem::path reference;             // library of the plugin `reference`
  int32_t device = 0;                          // index of the device
  std::map<std::string, std::string> options;  // of the device or the communicator
  bool quick = false;                          // fewer cases of each operation
  Sample sample;
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
  // devices, or says that this one is not usable here, and host::Error if it has none of that
  // index.
  std::shared_ptr<host::Device> device();
  // The device that computes every operation as it is defined.
  std::shared_ptr<host::Device> reference();

 private:
  const Setup setup_;
  std::shared_ptr<host::Plugin> plugin_;
  std::shared_ptr<host::Device> device_, reference_;
};

// The heap of this process, in bytes, as far as malloc counts it.
int64_t heap_bytes();

}  // namespace plugins::check

#endif  // PLUGINS_CHECK_CONTEXT_H_
