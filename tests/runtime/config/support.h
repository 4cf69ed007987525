// Code that the tests of runtime/config share.
#ifndef TESTS_RUNTIME_CONFIG_SUPPORT_H_
#define TESTS_RUNTIME_CONFIG_SUPPORT_H_

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/error.h"
#include "runtime/model/layer_types.h"

namespace runtime::config::test {

inline std::string presets() { return CONFIGS_FOLDER "/presets"; }

// The sections of a complete, valid configuration; tests add keys to it.
inline const std::string kDataset = "dataset.name = \"fashion_mnist\"\n";
inline const std::string kModel = "model.preset = \"lenet\"\n";
inline const std::string kTraining = "training.global_batch_size = 8\n";
inline const std::string kWhole = kDataset + kModel + kTraining;

// A temporary folder for one test, which the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("config_test_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    const auto path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline Config read(const std::string& text, const std::vector<Override>& overrides = {}) {
  return load_text(text, "test", overrides, presets(), model::layer_types());
}

// The message of the ConfigurationError that `action` throws; "" if it throws none.
template <class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

}  // namespace runtime::config::test

#endif  // TESTS_RUNTIME_CONFIG_SUPPORT_H_
