// Files of the unit tests of a sweep.
#ifndef TESTS_TOOLS_SWEEP_FILES_H_
#define TESTS_TOOLS_SWEEP_FILES_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace tools::sweep {

// A folder that is removed with the object.
class Folder {
 public:
  Folder() : path_(testing::TempDir() + "sweep_test_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << path_ << " cannot be made";
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
    return path(name);
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  }

 private:
  std::string path_;
};

}  // namespace tools::sweep

#endif  // TESTS_TOOLS_SWEEP_FILES_H_
