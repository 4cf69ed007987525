// Tests which plugins the registry finds, in which order, and how it reports the others.
#include "plugins/host/registry.h"

#include <sys/stat.h>

#include <cstdio>
#include <fstream>

#include "plugins/host/device.h"
#include "tests/plugins/host/support.h"

namespace plugins::host::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kListPlugins = LIST_PLUGINS " " PLUGIN_PROBE;

SearchPath configured(std::vector<fs::path> paths) {
  SearchPath path;
  path.configured = std::move(paths);
  return path;
}

std::vector<std::string> names(const Registry& registry) {
  std::vector<std::string> names;
  for (const auto& plugin : registry.plugins()) names.push_back(plugin.name);
  return names;
}

// Standard output and error of a shell command, and whether it ended with 0.
std::string output_of(const std::string& command, bool* succeeded = nullptr) {
  std::string output;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (pipe != nullptr && std::fgets(buffer, sizeof(buffer), pipe) != nullptr) output += buffer;
  const bool ended_well = pipe != nullptr && ::pclose(pipe) == 0;
  if (succeeded != nullptr) *succeeded = ended_well;
  return output;
}

TEST(Registry, LoadsFoldersAndFilesInTheOrderOfTheSearchPath) {
  TemporaryFolder folder;
  fs::copy_file(fixture("example"), folder / "libz.so");
  fs::copy_file(fixture("throwing"), folder / "liba.so");
  std::ofstream(folder / "README.md") << "this is a text and not a library";
  SearchPath path = configured({fixture("fake_communicator")});
  path.environment = {folder.path()};
  const Registry registry(path, {});
  EXPECT_THAT(names(registry), ::testing::ElementsAre("fake", "thrower", "example"));
  EXPECT_TRUE(registry.rejections().empty());
}

TEST(Registry, FirstOfTwoPluginsOfANameWins) {
  TemporaryFolder first, second;
  fs::copy_file(fixture("example"), first / "libexample.so");
  fs::copy_file(fixture("example"), second / "libexample.so");
  const Registry registry(configured({first.path(), second.path()}), {});
  ASSERT_EQ(registry.plugins().size(), 1u);
  EXPECT_EQ(registry.plugins()[0].file.named, first / "libexample.so");
  ASSERT_EQ(registry.rejections().size(), 1u);
  EXPECT_EQ(registry.rejections()[0].path, second / "libexample.so");
  EXPECT_THAT(registry.rejections()[0].reason,
              AllOf(HasSubstr("'example' is taken by"), HasSubstr(first.path().string())));
}

TEST(Registry, OneFileNamedTwiceIsOnePlugin) {
  const Registry registry(configured({fixture("example"), fixture("example")}), {});
  EXPECT_EQ(registry.plugins().size(), 1u);
  EXPECT_TRUE(registry.rejections().empty());
}

TEST(Registry, RejectsRelativeAndMissingEntriesAndGoesOn) {
  SearchPath path = configured({"plugins", "/usr/../lib", "/dev/null/folder", fixture("example")});
  path.built_in = "/dev/null/built_in";  // a build without plugins: no rejection
  const Registry registry(path, {});
  EXPECT_THAT(names(registry), ::testing::ElementsAre("example"));
  ASSERT_EQ(registry.rejections().size(), 3u);
  EXPECT_THAT(registry.rejections()[0].reason, HasSubstr("absolute path"));
  EXPECT_THAT(registry.rejections()[1].reason, HasSubstr("'..'"));
  EXPECT_THAT(registry.rejections()[2].reason, HasSubstr("does not exist"));
}

TEST(Registry, ErrorOfRequireTellsAllThatHelps) {
  TemporaryFolder folder;
  std::ofstream(folder / "libcuda.so") << "this is a text and not a library";
  const Registry registry(configured({fixture("example"), folder.path()}), {});
  EXPECT_EQ(registry.require("example").name, "example");
  const Error error = error_of([&] { registry.require("exampel"); });
  EXPECT_EQ(error.code(), RT_ERROR_UNAVAILABLE);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("no plugin is named 'exampel'"), HasSubstr("known: example"),
                    HasSubstr("did you mean \"example\"?"),
                    HasSubstr("rejected: " + (folder / "libcuda.so").string()),
                    HasSubstr("cannot be loaded"), HasSubstr("searched: "),
                    HasSubstr("RUNTIME_PLUGIN_PATH")));
  EXPECT_THAT(error_of([&] { registry.require("mpi"); }).what(), Not(HasSubstr("did you mean")));
}

TEST(SearchPath, TakesTheEnvironmentApart) {
  ::setenv("RUNTIME_PLUGIN_PATH", "/a::/b/c:relative", 1);
  const SearchPath path = SearchPath::standard({"/configured"});
  ::unsetenv("RUNTIME_PLUGIN_PATH");
  EXPECT_THAT(path.configured, ::testing::ElementsAre("/configured"));
  EXPECT_THAT(path.environment, ::testing::ElementsAre("/a", "/b/c", "relative"));
  EXPECT_TRUE(path.built_in.is_absolute());
  EXPECT_THAT(path.built_in.string(), ::testing::EndsWith("/lib/runtime/plugins"));
  EXPECT_TRUE(SearchPath::standard().environment.empty());
}

// A decoy with the name of a plugin lies in the current folder, which LD_LIBRARY_PATH also names.
// The test asks the kernel (strace) and the process (its maps) whether the decoy was opened.
TEST(Decoy, IsNeverOpened) {
  TemporaryFolder decoys, plugins;
  fs::copy_file(fixture("throwing"), decoys / "libthe_plugin.so");
  fs::copy_file(fixture("example"), plugins / "libthe_plugin.so");
  const std::string run =
      "cd " + decoys.path().string() + " && LD_LIBRARY_PATH=" + decoys.path().string() +
      " RUNTIME_PLUGIN_PATH=" + plugins.path().string() + " ASAN_OPTIONS=detect_leaks=0 ";
  bool succeeded = false;
  const std::string output = output_of(run + kListPlugins, &succeeded);
  ASSERT_TRUE(succeeded) << output;
  EXPECT_THAT(output, AllOf(HasSubstr("plugin example"),
                            HasSubstr("mapped " + (plugins / "libthe_plugin.so").string()),
                            Not(HasSubstr((decoys / "libthe_plugin.so").string()))));
  bool can_trace = false;
  output_of("strace -o /dev/null true", &can_trace);
  if (!can_trace) GTEST_SKIP() << "strace is absent or not allowed; only the maps were checked";
  const std::string trace =
      output_of(run + "strace -f -e trace=open,openat,execve " + kListPlugins);
  EXPECT_THAT(trace, HasSubstr((plugins / "libthe_plugin.so").string() + "\""));
  EXPECT_THAT(trace, Not(HasSubstr((decoys / "libthe_plugin.so").string())));
  // These patterns match opens relative to the current folder. Folders of plugins are opened before
  // and have other descriptors.
  for (const char* current : {"AT_FDCWD, \"", "AT_FDCWD, \"./", "open(\"", "open(\"./"})
    EXPECT_THAT(trace, Not(HasSubstr(std::string(current) + "libthe_plugin.so")));
}

// Plugins of the examples and the template export the entry and nothing else; tests/house looks at
// those of the build.
TEST(Exports, AreTheEntryAlone) {
  for (const fs::path& library :
       {fixture("example"), fixture("fake_communicator"), fixture("template_device")}) {
    bool succeeded = false;
    const std::string symbols =
        output_of("nm -D --defined-only --format=just-symbols " + library.string(), &succeeded);
    ASSERT_TRUE(succeeded) << symbols;
    EXPECT_EQ(symbols, "rt_plugin_entry\n") << library;
  }
}

TEST(Plugins, LoadUseAndShutDownAHundredTimes) {
  for (int i = 0; i < 100; ++i) {
    const Registry registry(configured({fixture("example"), fixture("fake_communicator")}), {});
    ASSERT_EQ(registry.plugins().size(), 2u);
    const auto device = Device::open(registry.open("example"), 0);
    Stream stream = device->create_stream();
    Memory memory = device->allocate(256);
    stream.fill(memory.data(), i, memory.bytes());
    stream.synchronize();
    EXPECT_EQ(static_cast<unsigned char*>(memory.data())[255], i);
  }
}

}  // namespace
}  // namespace plugins::host::testing
