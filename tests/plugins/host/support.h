// Code that the tests of the host side share: the paths of fixture plugins, temporary folders, and
// messages of exceptions.
#ifndef TESTS_PLUGINS_HOST_SUPPORT_H_
#define TESTS_PLUGINS_HOST_SUPPORT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "plugins/host/error.h"
#include "plugins/host/plugin.h"

namespace plugins::host::testing {

namespace fs = std::filesystem;

// The library of a fixture target; CMake defines its folder.
inline fs::path fixture(const std::string& target) {
  return fs::path(FIXTURE_FOLDER) / ("lib" + target + ".so");
}

// A temporary folder for one test, which the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "runtime_test_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = fs::canonical(pattern);
  }
  ~TemporaryFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

// The Error that `body` throws; its code is RT_OK if `body` throws none.
template <typename Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no plugins::host::Error was thrown";
  return Error(RT_OK, "");
}

}  // namespace plugins::host::testing

#endif  // TESTS_PLUGINS_HOST_SUPPORT_H_
