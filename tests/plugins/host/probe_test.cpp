// Plugins that hang, end their process or return impossible values are probed in another process.
// Each is rejected with a reason, and the plugin beside it is not affected.
#include "plugins/host/probe.h"

#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <fstream>
#include <ostream>

#include "plugins/host/answer.h"
#include "plugins/host/limits.h"
#include "plugins/host/printable.h"
#include "plugins/host/registry.h"
#include "tests/plugins/host/support.h"

namespace plugins::host::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

// Long enough for a busy machine to start a process.
constexpr auto kShortDeadline = 5s;

SearchPath with_example(std::vector<std::string> fixtures) {
  SearchPath path;
  for (const std::string& name : fixtures) path.configured.push_back(fixture(name));
  path.configured.push_back(fixture("example"));
  return path;
}

void expect_example_usable(const Registry& registry) {
  const auto device = Device::open(registry.open("example"), 0);
  EXPECT_GT(device->allocate(64).bytes(), 0u);
}

void expect_no_children() {
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD) << "a process was left over";
}

struct Fault {
  const char* fixture;
  std::vector<std::string> words;
};

void PrintTo(const Fault& fault, std::ostream* stream) { *stream << fault.fixture; }

class FaultyPlugin : public ::testing::TestWithParam<Fault> {};

TEST_P(FaultyPlugin, IsRejectedAndTheOthersAreNot) {
  const Registry registry(with_example({GetParam().fixture}), {}, {.deadline = kShortDeadline});
  ASSERT_EQ(registry.rejections().size(), 1u);
  const Rejection& rejection = registry.rejections()[0];
  EXPECT_EQ(rejection.path, fixture(GetParam().fixture));
  for (const std::string& word : GetParam().words) EXPECT_THAT(rejection.reason, HasSubstr(word));
  expect_example_usable(registry);
  expect_no_children();
}

INSTANTIATE_TEST_SUITE_P(
    Fixtures, FaultyPlugin,
    ::testing::Values(
        Fault{"misbehaving_exits", {"ended with exit code 0 while its entry ran"}},
        Fault{"misbehaving_exits_in_loading",
              {"ended with exit code 0 while its library was opened"}},
        Fault{"misbehaving_aborts",
              {"was killed by SIGABRT while its entry ran", "it printed: the driver is broken"}},
        Fault{"misbehaving_segfaults", {"was killed by SIGSEGV while its devices were counted"}},
        Fault{"misbehaving_closes", {"closed the pipe", "while its entry ran"}},
        Fault{"misbehaving_scribbles", {"wrote into the answer"}},
        Fault{"misbehaving_many_devices", {"count devices", "2147483647", "from 0 to 1024"}},
        Fault{"misbehaving_negative_devices", {"count devices", "-1", "from 0 to 1024"}},
        Fault{"misbehaving_alignment_zero",
              {"misbehaving:0: properties", "an alignment of 0 bytes", "power of two"}},
        Fault{"misbehaving_alignment_odd", {"an alignment of 48 bytes", "power of two"}},
        Fault{"misbehaving_alignment_huge", {"an alignment of 9223372036854775808 bytes"}},
        Fault{"misbehaving_type_zero", {"storage_dtypes", "bit 0"}},
        Fault{"misbehaving_memory_huge", {"memory_bytes", "18446744073709551615 bytes"}},
        Fault{"misbehaving_priority_negative", {"priority", "-1", "from 0 to 1000000"}},
        Fault{"misbehaving_many_threads", {"threads", "2000000000", "from 0 to 65536"}},
        Fault{"misbehaving_largest_buffer_huge", {"largest_buffer", "18446744073709551615 bytes"}},
        Fault{"misbehaving_largest_buffer_tiny",
              {"a largest_buffer of 1 bytes", "0, or at least its alignment, 64"}},
        Fault{"misbehaving_many_options", {"options", "4294967295", "from 0 to 256"}},
        Fault{"misbehaving_long_text", {"description", "more than 1023 bytes"}}),
    [](const auto& info) { return std::string(info.param.fixture); });

// All hanging plugins are in one registry, so that the test waits for one deadline and not for
// five.
TEST(Probe, AHangIsEndedAtTheDeadlineAndNamed) {
  const std::vector<Fault> faults = {
      {"misbehaving_hangs_in_loading", {"its library was opened"}},
      {"misbehaving_hangs_in_entry", {"its entry ran"}},
      {"misbehaving_hangs_in_count", {"its devices were counted"}},
      {"misbehaving_hangs_in_properties", {"the properties of device 0 were read"}},
      {"misbehaving_hangs_in_open", {"the state of misbehaving:0 was read"}}};
  std::vector<std::string> names;
  for (const Fault& fault : faults) names.push_back(fault.fixture);
  const Registry registry(with_example(names), {}, {.states = true, .deadline = kShortDeadline});
  ASSERT_EQ(registry.rejections().size(), faults.size());
  for (std::size_t i = 0; i < faults.size(); ++i) {
    EXPECT_EQ(registry.rejections()[i].path, fixture(faults[i].fixture));
    EXPECT_THAT(registry.rejections()[i].reason,
                HasSubstr("did not answer within 5 s while " + faults[i].words[0]));
  }
  expect_example_usable(registry);
  expect_no_children();
}

// The output of a probed plugin is discarded, whatever its size; its shutdown has no effect on the
// program either.
TEST(Probe, OutputOfAPluginDoesNotReachTheProgram) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const Registry registry(with_example({"misbehaving_prints", "misbehaving_hangs_in_shutdown"}),
                          {});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_EQ(registry.plugins().size(), 2u);
  EXPECT_EQ(registry.plugins()[0].name, "misbehaving");
  EXPECT_THAT(registry.rejections()[0].reason, HasSubstr("'misbehaving' is taken"));
}

TEST(Probe, ProcessesThatAPluginStartsAreEndedToo) {
  const Registry registry(with_example({"misbehaving_forks"}), {});
  ASSERT_EQ(registry.plugins().size(), 2u);
  const std::string& id = registry.plugins()[0].version;
  ASSERT_GT(std::stoi(id), 1);
  // The process was killed, and dies when the system gets to it; it stays a zombie if nothing reaps
  // orphans.
  for (int i = 0; i < 1000; ++i) {
    std::ifstream file("/proc/" + id + "/stat");
    std::string text;
    if (!std::getline(file, text) || text.find(") Z ") != std::string::npos) return;
    ::usleep(10'000);
  }
  FAIL() << "process " << id << " still runs";
}

TEST(Probe, StatesAreReadOnlyWhereAskedFor) {
  const SearchPath path = with_example({"misbehaving_prints"});
  EXPECT_TRUE(Registry(path, {}).plugins()[0].states.empty());
  const Registry registry(path, {}, {.states = true});
  const auto& states = registry.plugins()[0].states;
  ASSERT_EQ(states.size(), 1u);
  ASSERT_TRUE(states[0].has_value());
  EXPECT_EQ(states[0]->error, "");
  EXPECT_EQ(states[0]->memory.free_bytes, 512u);
  EXPECT_EQ(states[0]->utilisation.compute_percent, -1);
  ASSERT_EQ(registry.plugins()[1].states.size(), 1u);
  EXPECT_FALSE(registry.plugins()[1].states[0].has_value()) << "its memory is the host's";
}

TEST(Probe, DescribesWithoutLoading) {
  // Describes a copy of the plugin and checks at the end that this process has not mapped the copy.
  // Other tests in this process may have loaded the original.
  TemporaryFolder folder;
  fs::copy_file(fixture("example"), folder / "libexample.so");
  SearchPath path;
  path.configured = {folder.path()};
  const Registry registry(path, {});
  const PluginDescription& d = registry.require("example");
  EXPECT_EQ(d.version, "1.0.0");
  EXPECT_TRUE(d.offers(RT_INTERFACE_KERNEL));
  EXPECT_FALSE(d.offers(RT_INTERFACE_COMMUNICATOR));
  EXPECT_FALSE(d.communicator.has_value());
  ASSERT_EQ(d.devices.size(), 1u);
  EXPECT_EQ(d.devices[0].id(), "example:0");
  ASSERT_EQ(d.options.size(), 1u);
  EXPECT_EQ(d.options[0].key, "memory_mib");
  std::ifstream maps("/proc/self/maps");
  const std::string text((std::istreambuf_iterator<char>(maps)), {});
  EXPECT_THAT(text, Not(HasSubstr(folder.path().string())));
}

TEST(Probe, ControlCharactersBecomeText) {
  const Registry registry(with_example({"misbehaving_escapes"}), {});
  ASSERT_EQ(registry.plugins().size(), 2u);
  const PluginDescription& d = registry.plugins()[0];
  const std::string expected = "red \\x1b[31m, title \\x1b]0;x\\x07, new\\x0aline";
  EXPECT_EQ(d.description, expected);
  EXPECT_EQ(d.options[0].description, expected);
  EXPECT_STREQ(d.devices[0].properties.name, "a \\x1b[2Jdevice");
  EXPECT_STREQ(list_devices(*registry.open("misbehaving"))[0].properties.name, "a \\x1b[2Jdevice");
}

TEST(Probe, AMissingProgramIsAnError) {
  TemporaryFolder folder;
  fs::create_directory(folder / "bin");
  const fs::path program = folder / "bin/list_plugins";
  fs::copy_file(LIST_PLUGINS, program);
  const std::string command = "RUNTIME_PLUGIN_PATH=" + fixture("example").string() +
                              " ASAN_OPTIONS=detect_leaks=0 " + program.string() + " 2>&1";
  std::string output;
  FILE* pipe = ::popen(command.c_str(), "r");
  char buffer[4096];
  while (pipe != nullptr && std::fgets(buffer, sizeof(buffer), pipe) != nullptr) output += buffer;
  EXPECT_NE(::pclose(pipe), 0);
  EXPECT_THAT(output, AllOf(HasSubstr("plugin_probe is at none of"),
                            HasSubstr((folder / "libexec/runtime/plugin_probe").string())));
}

TEST(Probe, AProgramThatIsNotOursIsAnError) {
  SearchPath path = with_example({});
  path.probe = "/bin/true";
  EXPECT_THAT(error_of([&] { Registry(path, {}); }).what(),
              AllOf(HasSubstr("/true"), HasSubstr("ended with exit code 0 before it began")));
}

TEST(Registry, AFileThatChangedAfterTheLookIsNotOpened) {
  TemporaryFolder folder;
  fs::copy_file(fixture("example"), folder / "libexample.so");
  SearchPath path;
  path.configured = {folder.path()};
  const Registry registry(path, {});
  std::ofstream(folder / "libexample.so", std::ios::app) << "more";
  EXPECT_THAT(error_of([&] { registry.open("example"); }).what(), HasSubstr("has changed"));
}

TEST(Registry, LogsWhatItPassesOver) {
  std::vector<std::string> log;
  HostServices services;
  services.log = [&](int32_t level, const std::string& component, const std::string& text) {
    EXPECT_EQ(level, RT_LOG_WARNING);
    log.push_back(component + ": " + text);
  };
  Registry(with_example({"misbehaving_exits"}), services).log_rejections();
  ASSERT_EQ(log.size(), 1u);
  EXPECT_THAT(log[0], AllOf(HasSubstr("skipped " + fixture("misbehaving_exits").string()),
                            HasSubstr("exit code 0")));
}

TEST(Description, BytesThatAreNoneAreRefused) {
  const auto plugin = Plugin::load(fixture("example"), {});
  const std::string bytes = encode(describe(plugin, true, [](const char*) {}));
  EXPECT_EQ(encode(decode(bytes)), bytes);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(decode(std::string_view(bytes).substr(0, length)), Error) << length;
  EXPECT_THROW(decode(bytes + "x"), Error);
  std::string many = bytes;
  many.replace(0, 4, "\xff\xff\xff\xff");
  EXPECT_THROW(decode(many), Error);
}

TEST(Answer, GrowsFrameByFrame) {
  const std::string bytes = make_frame(Frame::kHello, "1") +
                            make_frame(Frame::kStep, "a\x1b step") +
                            make_frame(Frame::kRefusal, "no");
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(read_answer(std::string_view(bytes).substr(0, length)).complete());
  const Answer answer = read_answer(bytes);
  EXPECT_EQ(answer.hello, "1");
  EXPECT_EQ(answer.step, "a\\x1b step");
  EXPECT_EQ(answer.refusal, "no");
  EXPECT_TRUE(read_answer("this is no frame at all").garbage);
}

TEST(Printable, KeepsTextAndShowsTheRest) {
  EXPECT_EQ(printable("GeForce™ 4090, 24 GiB – größer"), "GeForce™ 4090, 24 GiB – größer");
  EXPECT_EQ(printable("\x1b[31m\r\n\t\x7f"), "\\x1b[31m\\x0d\\x0a\\x09\\x7f");
  EXPECT_EQ(printable("\xc2\x9b 31m"), "\\xc2\\x9b 31m") << "CSI as one character";
  EXPECT_EQ(printable("\xe2\x80\xae evil"), "\\xe2\\x80\\xae evil") << "right-to-left override";
  EXPECT_EQ(printable("\xff\xc0\xaf\xed\xa0\x80"), "\\xff\\xc0\\xaf\\xed\\xa0\\x80");
  EXPECT_EQ(printable("cut \xe2\x84"), "cut \\xe2\\x84");
  char text[6] = {'a', '\x1b', 'b', 'c', 'd', 'e'};  // no NUL
  make_printable(text);
  EXPECT_STREQ(text, "a\\x1b");
}

TEST(Limits, ValuesOfPlansAreChecked) {
  Operation operation;
  operation.name = "add";
  operation.inputs.resize(2);
  operation.outputs.resize(1);
  rt_plan_info info{};
  info.in_place[0] = 3;
  EXPECT_NO_THROW(check_plan(info, operation, "plan"));
  info.in_place[0] = 4;
  EXPECT_THAT(error_of([&] { check_plan(info, operation, "plan"); }).what(), HasSubstr("mask 4"));
  info.in_place[0] = 0;
  info.workspace_bytes = ~uint64_t{0};
  EXPECT_THAT(error_of([&] { check_plan(info, operation, "plan"); }).what(),
              HasSubstr("18446744073709551615 bytes"));
  rt_candidate candidate{};
  candidate.output_bytes[0] = kMaxBytes + 1;
  EXPECT_THROW(check_candidate(candidate, operation, "query"), Error);
  candidate.output_bytes[0] = 0;
  candidate.estimated_ns = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(check_candidate(candidate, operation, "query"), Error);
}

}  // namespace
}  // namespace plugins::host::testing
