// Devices, folders and configurations for the tests of runtime/.
#ifndef TESTS_RUNTIME_SUPPORT_DEVICES_H_
#define TESTS_RUNTIME_SUPPORT_DEVICES_H_

#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "plugins/host/device.h"
#include "runtime/config/config.h"

namespace runtime::test {

// Whether the build has the backend: "reference" and "simulated" always, "cpu" if it was built.
bool has_backend(const std::string& backend);
std::string plugin_file(const std::string& backend);
std::shared_ptr<plugins::host::Device> open_device(const std::string& backend,
                                                   std::map<std::string, std::string> options = {},
                                                   int index = 0);

std::string preset_folder();
// Reads a configuration from TOML text, with the presets of configs/presets.
config::Config parse(const std::string& toml, const std::vector<config::Override>& overrides = {});

// A temporary folder for one test, which the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

std::string read_text(const std::filesystem::path& file);

// The message of the exception of type E that `action` throws; "" if it throws none.
template <class E, class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

}  // namespace runtime::test

#endif  // TESTS_RUNTIME_SUPPORT_DEVICES_H_
