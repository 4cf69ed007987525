// Folders with files of a test.
#ifndef TESTS_TOOLS_REPORT_FILES_H_
#define TESTS_TOOLS_REPORT_FILES_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tools::report::test {

// A folder that is removed at the end of the test.
class Folder {
 public:
  Folder() {
    std::string name = testing::TempDir() + "report-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << name << " cannot be made";
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Writes a file, with the folders that lead to it, and returns its path.
  std::filesystem::path write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// The message of the exception that `function` throws; "" if it throws none of type Error.
template <typename Error, typename Function>
std::string message_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace tools::report::test

#endif  // TESTS_TOOLS_REPORT_FILES_H_
