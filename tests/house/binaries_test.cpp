// Checks what the binaries link and export.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

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

// Names without version, for example "libz" for "libz.so.1".
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

// The programs that compute.
const char* const kPrograms[] = {RUNTIME_PROGRAM, RUNTIME_PROGRAM "-verify",
                                 RUNTIME_PROGRAM "-bench"};

TEST(Binaries, TheProgramsLinkNoVendorsLibrary) {
  // Builds with sanitizers link further libraries.
  const std::set<std::string> allowed = {
      "libc",     "libm",     "libstdc++", "libgcc_s",   "ld-linux-x86-64",  "libz",
      "libjpeg",  "libpng16", "libfmt",    "libhiredis", "libutf8proc",      "libdeflate",
      "libonig",  "libpmix",  "libdl",     "libpthread", "ld-linux-aarch64", "libasan",
      "libubsan", "libtsan"};
  for (const char* program : kPrograms) {
    const std::set<std::string> needed = needed_libraries(program);
    ASSERT_TRUE(needed.contains("libc")) << program << ": readelf of binutils is needed";
    for (const std::string& name : needed) EXPECT_TRUE(allowed.contains(name)) << name;
  }
}

// Oniguruma defines functions of POSIX under their own names; the first library of the list wins.
TEST(Binaries, TheCLibraryStandsBeforeOniguruma) {
  for (const char* program : kPrograms) {
    const std::string list = output_of("readelf -d '" + std::string(program) + "'");
    EXPECT_LT(list.find("[libc.so"), list.find("[libonig.so")) << program;
  }
}

TEST(Binaries, PluginsExportTheEntryAndNothingUnexpected) {
  int plugins = 0;
  for (const auto& entry : fs::directory_iterator(PLUGIN_FOLDER)) {
    if (entry.path().extension() != ".so") continue;
    ++plugins;
    std::istringstream lines(output_of("nm -D --defined-only '" + entry.path().string() + "'"));
    std::set<std::string> names;
    for (std::string line; std::getline(lines, line);)
      names.insert(line.substr(line.rfind(' ') + 1));
    std::set<std::string> expected = {"rt_plugin_entry"};
    // oneDNN is to find them here; see backends/cpu/onednn_openmp.cpp.
    if (entry.path().filename() == "libbackend_cpu.so")
      expected.insert({"GOMP_barrier", "GOMP_parallel", "omp_get_max_threads",
                       "omp_get_num_threads", "omp_get_thread_num", "omp_in_parallel",
                       "omp_set_num_threads"});
    EXPECT_EQ(names, expected) << entry.path();
  }
  EXPECT_GE(plugins, 1);
}

// Returns all ELF programs and shared objects in a folder and its subfolders, except those that
// CMake made to try the compilers.
std::vector<fs::path> programs_and_libraries(const fs::path& folder) {
  std::vector<fs::path> files;
  const auto options = fs::directory_options::skip_permission_denied;
  std::error_code error;  // tests that run at the same time create and remove folders
  for (fs::recursive_directory_iterator it(folder, options, error), end; it != end;
       it.increment(error)) {
    if (it->path().filename() == "CMakeFiles") it.disable_recursion_pending();
    char head[18] = {};
    std::error_code ignored;
    if (!it->is_regular_file(ignored) || it->is_symlink(ignored)) continue;
    std::ifstream(it->path(), std::ios::binary).read(head, sizeof(head));
    const bool elf = std::string_view(head, 4) ==
                     "\x7f"
                     "ELF";
    const bool linked = head[16] == 2 || head[16] == 3;  // e_type: program, shared object
    if (elf && linked) files.push_back(it->path());
  }
  return files;
}

// The entries of DT_RPATH and DT_RUNPATH; "" for an empty entry, which makes the loader search the
// working folder.
std::vector<std::string> search_path_parts(const fs::path& file) {
  std::vector<std::string> parts;
  std::istringstream lines(output_of("readelf -d '" + file.string() + "' 2>/dev/null"));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("(RPATH)") == std::string::npos && line.find("(RUNPATH)") == std::string::npos)
      continue;
    const size_t begin = line.find('[') + 1;
    std::string text = line.substr(begin, line.rfind(']') - begin);
    for (size_t colon; (colon = text.find(':')) != std::string::npos; text.erase(0, colon + 1))
      parts.push_back(text.substr(0, colon));
    parts.push_back(text);
  }
  return parts;
}

bool is_fixed(const std::string& part) {
  const bool absolute = part.starts_with('/') || part == "$ORIGIN" || part.starts_with("$ORIGIN/");
  return absolute && part.find("..") == std::string::npos;
}

TEST(Binaries, NoSearchPathLeadsToTheWorkingFolder) {
  const std::vector<fs::path> files = programs_and_libraries(BUILD_FOLDER);
  ASSERT_GE(files.size(), 4u);
  size_t parts = 0;
  for (const fs::path& file : files) {
    for (const std::string& part : search_path_parts(file)) {
      ++parts;
      EXPECT_TRUE(is_fixed(part)) << file << " has \"" << part << "\" in its search path";
    }
  }
  EXPECT_GT(parts, 0u) << "a fixture of tests/plugins has one; readelf of binutils is needed";
}

// The working folder has text files with the names of all libraries that the plugins need.
TEST(Binaries, ALibraryInTheWorkingFolderIsNotTaken) {
  const fs::path decoys = fs::path(BUILD_FOLDER) / "tests/house_decoys";
  fs::create_directories(decoys);
  for (const auto& entry : fs::directory_iterator(PLUGIN_FOLDER)) {
    std::istringstream lines(output_of("readelf -d '" + entry.path().string() + "'"));
    for (std::string line; std::getline(lines, line);) {
      const size_t begin = line.find("Shared library: [");
      if (begin == std::string::npos) continue;
      const std::string name = line.substr(begin + 17, line.rfind(']') - begin - 17);
      std::ofstream(decoys / name) << "this is a text and not a library, long enough for a header";
    }
  }
  const std::string list = std::string("'") + RUNTIME_PROGRAM + "' plugins list 2>&1";
  const std::string elsewhere = output_of("cd / && " + list);
  EXPECT_NE(elsewhere.find("reference"), std::string::npos) << elsewhere;
  EXPECT_EQ(output_of("cd '" + decoys.string() + "' && " + list), elsewhere);
  fs::remove_all(decoys);
}

}  // namespace
}  // namespace house
