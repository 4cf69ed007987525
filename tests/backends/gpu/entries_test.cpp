// The kernels of the GPU plugins cover the operations of the contract: a check by the text of their
// tables, because most machines that run tests compile no kernels and have no GPU.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace {

// The constants that a text has in places that match, of which each has one group.
void add_names(const std::filesystem::path& file, const std::regex& place,
               std::set<std::string>& names) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const std::string all = text.str();
  for (std::sregex_iterator it(all.begin(), all.end(), place), end; it != end; ++it)
    names.insert((*it)[1]);
}

TEST(GpuEntries, EachOperationHasOne) {
  std::set<std::string> operations, entries;
  add_names(OPERATIONS_HEADER, std::regex("#define (RT_OP_[A-Z0-9_]+)"), operations);
  ASSERT_GT(operations.size(), 55u);
  for (const auto& file : std::filesystem::directory_iterator(GPU_SOURCES)) {
    if (file.path().extension() == ".cu" || file.path().extension() == ".cpp")
      add_names(file.path(), std::regex(R"(\{(RT_OP_[A-Z0-9_]+),)"), entries);
  }
  // The GPU backends have no convolution together with its pooling.
  operations.erase("RT_OP_CONV2D_POOL2D");
  operations.erase("RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS");
  for (const std::string& name : operations)
    EXPECT_TRUE(entries.contains(name)) << name << " has no entry in backends/gpu";
}

}  // namespace
