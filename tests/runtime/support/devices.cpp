// Opens plugins and devices of the build, and parses configurations.
#include "tests/runtime/support/devices.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "runtime/model/layer_types.h"
#include "runtime/train/open_types.h"

namespace runtime::test {

std::string plugin_file(const std::string& backend) {
  static const std::map<std::string, std::string> files = {
      {"reference", REFERENCE_PLUGIN}, {"simulated", SIMULATED_PLUGIN}, {"cpu", CPU_PLUGIN}};
  return files.at(backend);
}

bool has_backend(const std::string& backend) { return !plugin_file(backend).empty(); }

std::shared_ptr<plugins::host::Device> open_device(const std::string& backend,
                                                   std::map<std::string, std::string> options,
                                                   int index) {
  return plugins::host::Device::open(plugins::host::Plugin::load(plugin_file(backend), {}), index,
                                     {0, std::move(options)});
}

std::string preset_folder() { return PRESET_FOLDER; }

config::Config parse(const std::string& toml, const std::vector<config::Override>& overrides) {
  return config::load_text(toml, "test", overrides, PRESET_FOLDER, model::layer_types(),
                           train::find_open_types({}));
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "runtime_test_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, const std::string& text) const {
  const std::filesystem::path file = path_ / name;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
  return file.string();
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace runtime::test
