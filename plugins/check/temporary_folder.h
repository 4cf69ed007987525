// A folder for the files of one check.
#ifndef PLUGINS_CHECK_TEMPORARY_FOLDER_H_
#define PLUGINS_CHECK_TEMPORARY_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "plugins/check/check.h"

namespace plugins::check {

// Makes an empty folder, and removes it with all that it holds when the check has ended. The
// constructor throws Fault if there is no place for it. Equivalent to: Python's
// tempfile.TemporaryDirectory.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "runtime-check-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, "cannot make the folder " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace plugins::check

#endif  // PLUGINS_CHECK_TEMPORARY_FOLDER_H_
