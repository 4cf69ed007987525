// What the binaries link and export.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <string>

namespace house {
namespace {

namespace fs = std::filesystem;

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> buffer;
  while (pipe != nullptr && fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr)
    text += buffer.data();
  return text;
}

// "libz.so.1" -> "libz"
std::set<std::string> needed_libraries(const std::string& file) {
  std::set<std::string> names;
  std::istringstream lines(output_of("readelf -d '" + file + "'"));
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find("Shared library: [");
    if (begin == std::string::npos) continue;
    const std::string name = line.substr(begin + 17);
    names.insert(name.substr(0, name.find_first_of(".]")));
  }
  return names;
}

TEST(Binaries, TheProgramLinksNoVendorsLibrary) {
  const std::set<std::string> needed = needed_libraries(RUNTIME_PROGRAM);
  ASSERT_TRUE(needed.contains("libc")) << "readelf of binutils is needed";
  // Sanitizers bring libraries of their own.
  const std::set<std::string> allowed = {
      "libc",     "libm",    "libstdc++",  "libgcc_s",         "ld-linux-x86-64",
      "libz",     "libjpeg", "libpng16",   "libfmt",           "libhiredis",
      "libpmix",  "libdl",   "libpthread", "ld-linux-aarch64", "libasan",
      "libubsan", "libtsan"};
  for (const std::string& name : needed) EXPECT_TRUE(allowed.contains(name)) << name;
}

TEST(Binaries, PluginsExportTheEntryOnly) {
  int plugins = 0;
  for (const auto& entry : fs::directory_iterator(PLUGIN_FOLDER)) {
    if (entry.path().extension() != ".so") continue;
    ++plugins;
    std::istringstream lines(output_of("nm -D --defined-only '" + entry.path().string() + "'"));
    std::set<std::string> names;
    for (std::string line; std::getline(lines, line);)
      names.insert(line.substr(line.rfind(' ') + 1));
    EXPECT_EQ(names, std::set<std::string>{"rt_plugin_entry"}) << entry.path();
  }
  EXPECT_GE(plugins, 1);
}

}  // namespace
}  // namespace house
