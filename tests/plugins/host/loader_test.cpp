// Tests which plugins the loader refuses, and with which messages; one row for each broken plugin.
#include "plugins/host/loader.h"

#include <fstream>
#include <ostream>

#include "tests/plugins/host/support.h"

namespace plugins::host::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Broken {
  const char* fixture;
  rt_status code;
  std::vector<std::string> words;
};

void PrintTo(const Broken& broken, std::ostream* stream) { *stream << broken.fixture; }

class BrokenPlugin : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenPlugin, IsRefusedWithItsReason) {
  const fs::path path = fixture(GetParam().fixture);
  ASSERT_TRUE(fs::exists(path)) << path;
  const Error error = error_of([&] { Plugin::load(path, {}); });
  EXPECT_EQ(error.code(), GetParam().code) << error.what();
  EXPECT_THAT(error.what(), HasSubstr(path.string()));
  for (const std::string& word : GetParam().words) EXPECT_THAT(error.what(), HasSubstr(word));
}

INSTANTIATE_TEST_SUITE_P(
    Fixtures, BrokenPlugin,
    ::testing::Values(
        Broken{"broken_major",
               RT_ERROR_VERSION,
               {"version 2", "this host speaks version 1", "rebuild"}},
        Broken{"broken_major_refused",
               RT_ERROR_VERSION,
               {"version 3", "this host speaks version 1", "needs a newer host"}},
        Broken{"broken_short_instance",
               RT_ERROR_VERSION,
               {"rt_plugin has 64 bytes", "has 80", "rebuild"}},
        Broken{"broken_short_table", RT_ERROR_VERSION, {"rt.device has 96 bytes", "at least 168"}},
        Broken{"broken_table_version", RT_ERROR_VERSION, {"rt.kernel", "version 1", "version 7"}},
        Broken{"broken_empty_device_slot",
               RT_ERROR_VERSION,
               {"rt.device", "empty slot 'stream_synchronize'"}},
        Broken{"broken_empty_kernel_slot", RT_ERROR_VERSION, {"rt.kernel", "empty slot 'launch'"}},
        Broken{"broken_empty_shutdown", RT_ERROR_VERSION, {"empty slot 'shutdown'"}},
        Broken{"broken_empty_name", RT_ERROR_VERSION, {"empty slot 'name'"}},
        Broken{"broken_name_characters",
               RT_ERROR_INVALID_ARGUMENT,
               {"'My Device'", "[a-z][a-z0-9_]*"}},
        Broken{"broken_name_long", RT_ERROR_INVALID_ARGUMENT, {"at most 31"}},
        Broken{"broken_no_interface", RT_ERROR_UNAVAILABLE, {"none of the interfaces"}},
        Broken{"broken_kernel_alone", RT_ERROR_INVALID_ARGUMENT, {"rt.kernel without rt.device"}},
        Broken{"broken_option", RT_ERROR_INVALID_ARGUMENT, {"option descriptions"}},
        Broken{"broken_no_entry",
               RT_ERROR_UNAVAILABLE,
               {"does not export rt_plugin_entry", "undefined symbol"}},
        Broken{"broken_undefined_symbol",
               RT_ERROR_UNAVAILABLE,
               {"cannot be loaded", "undefined symbol: a_function_that_nobody_defines"}},
        Broken{"broken_entry_elsewhere",
               RT_ERROR_UNAVAILABLE,
               {"one of the libraries that it depends on does"}},
        Broken{"broken_entry_fails",
               RT_ERROR_DEVICE,
               {"the driver is 1.2, expected at least 2.0", "RT_ERROR_DEVICE, VENDOR code 35"}},
        Broken{"broken_no_instance", RT_ERROR_INTERNAL, {"RT_OK without a plugin"}},
        Broken{"throwing_entry",
               RT_ERROR_INTERNAL,
               {"exception cross the C border", "boom in entry"}}),
    [](const auto& info) { return std::string(info.param.fixture); });

TEST(Loader, AcceptsATableWithoutTheOptionalFunction) {
  const auto plugin = Plugin::load(fixture("template_device"), {});
  ASSERT_NE(plugin->device_api(), nullptr);
  EXPECT_EQ(plugin->device_api()->utilisation, nullptr);
  EXPECT_NE(plugin->device_api()->memory_info, nullptr);
}

TEST(Loader, RefusesAFileThatIsNotALibrary) {
  TemporaryFolder folder;
  std::ofstream(folder / "text.so")
      << "#!/bin/sh\necho this is not a shared library, however it is named\n";
  const Error error = error_of([&] { Plugin::load(folder / "text.so", {}); });
  EXPECT_EQ(error.code(), RT_ERROR_UNAVAILABLE);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("text.so"), HasSubstr("invalid ELF header")));
}

TEST(Loader, RefusesAnEmptyFileWithTheLoadersWords) {
  TemporaryFolder folder;
  std::ofstream(folder / "empty.so").flush();
  EXPECT_THAT(error_of([&] { Plugin::load(folder / "empty.so", {}); }).what(),
              HasSubstr("file too short"));
}

// The system's loader says of it that there is no such file.
TEST(Loader, NamesTheProcessorOfALibraryForAnother) {
  TemporaryFolder folder;
  const fs::path copy = folder / "libforeign.so";
  fs::copy_file(fixture("example"), copy);
  constexpr std::streamoff kMachine = 18;  // e_machine
  std::fstream(copy, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(kMachine)
      .write("\x16\0", 2);
  EXPECT_THAT(error_of([&] { Plugin::load(copy, {}); }).what(),
              AllOf(HasSubstr("is for another processor: got s390x"), HasSubstr(", expected ")));
}

// The system's loader would map the existing pages, and the missing ones would raise SIGBUS.
TEST(Loader, RefusesALibraryThatIsCutOff) {
  TemporaryFolder folder;
  const fs::path copy = folder / "libcut.so";
  const uintmax_t whole = fs::file_size(fixture("example"));
  for (const uintmax_t bytes :
       {uintmax_t{64}, uintmax_t{500}, uintmax_t{4096}, whole / 2, whole * 3 / 4, whole - 1}) {
    fs::copy_file(fixture("example"), copy, fs::copy_options::overwrite_existing);
    fs::resize_file(copy, bytes);
    EXPECT_THAT(error_of([&] { Plugin::load(copy, {}); }).what(),
                AllOf(HasSubstr(copy.string()), HasSubstr("is cut off"),
                      HasSubstr(std::to_string(bytes) + " bytes")));
  }
}

TEST(Loader, RefusesAFileThatIsNotTheOneThatWasChecked) {
  TemporaryFolder folder;
  const fs::path copy = folder / "libcopy.so";
  fs::copy_file(fixture("template_device"), copy);
  const CheckedFile file = check_library(copy);
  fs::copy_file(fixture("example"), folder / "libother.so");
  fs::rename(folder / "libother.so", copy);
  EXPECT_THAT(error_of([&] { open_library(file); }).what(), HasSubstr("has changed"));
}

TEST(Loader, KeepsWhatThePluginSaysOfItself) {
  const auto plugin = Plugin::load(fixture("example"), {});
  EXPECT_EQ(plugin->name(), "example");
  EXPECT_EQ(plugin->version(), "1.0.0");
  EXPECT_EQ(plugin->minor(), static_cast<uint32_t>(RT_ABI_MINOR));
  EXPECT_FALSE(plugin->vendor().empty() || plugin->build_id().empty() ||
               plugin->description().empty());
  EXPECT_EQ(plugin->communicator_api(), nullptr);
  ASSERT_EQ(plugin->options().size(), 1u);
  EXPECT_EQ(plugin->options()[0].key, "memory_mib");
  EXPECT_EQ(plugin->options()[0].type, RT_OPTION_INTEGER);
}

TEST(Loader, AnExceptionOfShutdownIsLoggedNotThrown) {
  std::vector<std::string> log;
  HostServices services;
  services.log = [&](int32_t, const std::string& component, const std::string& text) {
    log.push_back(component + ": " + text);
  };
  Plugin::load(fixture("throwing"), services).reset();
  EXPECT_THAT(log, ::testing::ElementsAre("thrower: shutdown threw boom in shutdown"));
}

}  // namespace
}  // namespace plugins::host::testing
