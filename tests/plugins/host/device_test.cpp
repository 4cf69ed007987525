// Tests the RAII handles with a working device (the C example) and with one whose functions throw
// or fail.
#include "plugins/host/device.h"

#include <numeric>

#include "rt/operations.h"
#include "tests/plugins/host/support.h"

namespace plugins::host::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<Device> open_example(const DeviceOptions& options = {}) {
  return Device::open(Plugin::load(fixture("example"), {}), 0, options);
}

std::shared_ptr<Device> open_thrower() {
  return Device::open(Plugin::load(fixture("throwing"), {}), 0);
}

Operation add_of(int64_t count) {
  Operation operation;
  operation.name = RT_OP_ADD;
  operation.inputs = {make_tensor_desc(RT_FLOAT32, {count}), make_tensor_desc(RT_FLOAT32, {count})};
  operation.outputs = {make_tensor_desc(RT_FLOAT32, {count})};
  return operation;
}

TEST(Device, ListsWithoutOpening) {
  const auto devices = list_devices(*Plugin::load(fixture("throwing"), {}));
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[1].id(), "thrower:1");
  EXPECT_TRUE(devices[0].usable());
  EXPECT_FALSE(devices[1].usable());
  EXPECT_STREQ(devices[1].properties.unusable_reason, "the driver is missing");
}

TEST(Device, AnIndexThatDoesNotExistListsThoseThatDo) {
  const auto plugin = Plugin::load(fixture("throwing"), {});
  const Error error = error_of([&] { Device::open(plugin, 5); });
  EXPECT_EQ(error.code(), RT_ERROR_UNAVAILABLE);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("no device thrower:5"), HasSubstr("thrower:0, thrower:1")));
  EXPECT_THAT(error_of([&] { Device::open(plugin, -1); }).what(),
              HasSubstr("thrower:0, thrower:1"));
}

TEST(Device, AnUnusableOneSaysWhy) {
  const auto plugin = Plugin::load(fixture("throwing"), {});
  EXPECT_THAT(error_of([&] { Device::open(plugin, 1); }).what(),
              AllOf(HasSubstr("thrower:1"), HasSubstr("the driver is missing")));
}

TEST(Device, ChecksOptionsAgainstWhatThePluginKnows) {
  const DeviceOptions wrong{.threads = 0, .options = {{"memory_mb", "1"}}};
  EXPECT_THAT(error_of([&] { open_example(wrong); }).what(),
              AllOf(HasSubstr("device.example.memory_mb = 1: the plugin has no such key"),
                    HasSubstr("did you mean \"memory_mib\"?")));
  const DeviceOptions bad_value{.threads = 0, .options = {{"memory_mib", "many"}}};
  EXPECT_THAT(error_of([&] { open_example(bad_value); }).what(), HasSubstr("memory_mib is 'many'"));
}

TEST(Memory, IsCountedFreedAndLimited) {
  const auto device = open_example({.threads = 0, .options = {{"memory_mib", "1"}}});
  EXPECT_EQ(device->memory_info().total_bytes, 1u << 20);
  {
    Memory memory = device->allocate(1000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % device->properties().alignment, 0u);
    EXPECT_EQ(device->memory_info().allocated_bytes, 1000u);
    Memory moved = std::move(memory);
    EXPECT_TRUE(moved);
    EXPECT_FALSE(memory);  // NOLINT(bugprone-use-after-move): a moved handle is empty
    moved = device->allocate(500);
    EXPECT_EQ(device->memory_info().allocated_bytes, 500u);
  }
  EXPECT_EQ(device->memory_info().allocated_bytes, 0u);
  const Error error = error_of([&] { device->allocate(2 << 20); });
  EXPECT_EQ(error.code(), RT_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("example:0: allocate 2097152 bytes"), HasSubstr("1048576 free")));
}

TEST(Memory, KeepsItsDeviceAndPluginAlive) {
  Memory memory = open_example()->allocate(64);
  static_cast<char*>(memory.data())[63] = 1;
}

TEST(Kernel, ComputesWhatTheOperationSays) {
  const auto device = open_example();
  Stream stream = device->create_stream();
  Kernel kernel = device->create_kernel(add_of(100));
  EXPECT_EQ(std::string(kernel.info().implementation), "add");
  Memory a = device->allocate(400), b = device->allocate(400), c = device->allocate(400);
  std::vector<float> host(100);
  std::iota(host.begin(), host.end(), 0.0f);
  stream.copy(a.data(), host.data(), 400);
  stream.copy(b.data(), host.data(), 400);
  const void* inputs[] = {a.data(), b.data()};
  void* outputs[] = {c.data()};
  kernel.launch(stream, {sizeof(rt_launch), 2, inputs, outputs, 1, 0, nullptr, nullptr});
  stream.copy(host.data(), c.data(), 400);
  stream.synchronize();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(host[i], 2.0f * i);
}

TEST(Kernel, AnswersQueriesWithCandidatesOrAReason) {
  const auto device = open_example();
  const Support support = device->query(add_of(8));
  EXPECT_EQ(support.level, RT_SUPPORT_NATIVE);
  ASSERT_EQ(support.candidates.size(), 1u);
  EXPECT_EQ(support.candidates[0].output_bytes[0], 32u);
  Operation refused = add_of(8);
  refused.inputs[1].dtype = RT_FLOAT64;
  const Support refusal = device->query(refused);
  EXPECT_EQ(refusal.level, RT_SUPPORT_REFUSED);
  EXPECT_EQ(refusal.reason_operand, 1);
  EXPECT_THAT(refusal.reason, HasSubstr("float32"));
  EXPECT_EQ(error_of([&] { device->create_kernel(refused); }).code(), RT_ERROR_UNSUPPORTED);
}

TEST(Kernel, ATailThatThePluginDoesNotKnowIsRefused) {
  const auto device = open_example();
  struct {
    rt_op_desc known;
    uint64_t appended;
  } newer{};
  const Operation operation = add_of(8);
  const OperationView view(operation);
  newer.known = *view.get();
  newer.known.size = sizeof(newer);
  rt_plan* plan = nullptr;
  const rt_kernel_api& api = *device->plugin().kernel_api();
  ASSERT_EQ(api.create(device->get(), &newer.known, &plan, nullptr), RT_OK);
  api.destroy(plan);
  newer.appended = 1;
  rt_error error = make_error();
  EXPECT_EQ(api.create(device->get(), &newer.known, &plan, &error), RT_ERROR_TOO_NEW);
  EXPECT_THAT(error.message, HasSubstr("of version 1.2 of the contract"));
}

TEST(Layout, CanonicalHasANameAndABytes) {
  const auto device = open_example();
  EXPECT_EQ(device->layout_bytes(make_tensor_desc(RT_FLOAT32, {3, 5})), 60u);
  EXPECT_EQ(device->layout_name(make_tensor_desc(RT_FLOAT32, {3, 5})), "canonical");
  EXPECT_THROW(device->layout_bytes(make_tensor_desc(RT_FLOAT32, {3}, 99)), Error);
}

TEST(Event, MeasuresAndIsReusable) {
  const auto device = open_example();
  Stream stream = device->create_stream();
  Event begin = device->create_event(), end = device->create_event();
  EXPECT_TRUE(begin.query());  // an event that was never recorded counts as complete
  begin.record(stream);
  begin.wait(stream);
  end.record(stream);
  end.synchronize();
  EXPECT_GE(Event::elapsed(begin, end).count(), 0);
  EXPECT_EQ(device->utilisation().compute_percent, -1);
  EXPECT_EQ(device->utilisation().power_milliwatts, -1);
}

TEST(TensorDesc, RefusesWhatCannotBe) {
  EXPECT_THROW(make_tensor_desc(RT_FLOAT32, std::vector<int64_t>(9, 1)), Error);
  EXPECT_THROW(make_tensor_desc(RT_FLOAT32, {2, -1}), Error);
}

TEST(Template, HasAWholeDeviceAndOneOperation) {
  const auto device = Device::open(Plugin::load(fixture("template_device"), {}), 0);
  Stream stream = device->create_stream();
  Operation operation;
  operation.name = RT_OP_SCALE;
  operation.inputs = operation.outputs = {make_tensor_desc(RT_FLOAT32, {3})};
  operation.attributes = {{RT_ATTR_ALPHA, 2.0}, {RT_ATTR_BETA, 1.0}};
  EXPECT_EQ(device->query(operation).level, RT_SUPPORT_NATIVE);
  Kernel kernel = device->create_kernel(operation);
  Memory memory = device->allocate(12);
  float values[] = {1, 2, 3};
  stream.copy(memory.data(), values, sizeof(values));
  const void* inputs[] = {memory.data()};
  void* outputs[] = {memory.data()};  // in place, which the plan allows
  ASSERT_EQ(kernel.info().in_place[0], 1u);
  kernel.launch(stream, {sizeof(rt_launch), 1, inputs, outputs, 1, 0, nullptr, nullptr});
  stream.copy(values, memory.data(), sizeof(values));
  stream.synchronize();
  EXPECT_THAT(values, ::testing::ElementsAre(3, 5, 7));
  const Support refused = device->query(add_of(4));
  EXPECT_EQ(refused.level, RT_SUPPORT_REFUSED);
  EXPECT_THAT(refused.reason, HasSubstr("add: there is no kernel for it"));
}

// This plugin breaks the rule that no exception crosses the C interface.
TEST(Thrower, CreateIsCaughtAtTheBorder) {
  const auto device = open_thrower();
  Operation operation = add_of(4);
  operation.name = "create_throws";
  const Error error = error_of([&] { device->create_kernel(operation); });
  EXPECT_EQ(error.code(), RT_ERROR_INTERNAL);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("thrower:0"), HasSubstr("create_throws"),
                                  HasSubstr("boom in create")));
}

TEST(Thrower, LaunchIsCaughtAtTheBorder) {
  const auto device = open_thrower();
  Stream stream = device->create_stream();
  Kernel kernel = device->create_kernel(add_of(4));
  const Error error = error_of([&] { kernel.launch(stream, rt_launch{}); });
  EXPECT_EQ(error.code(), RT_ERROR_INTERNAL);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("thrower:0: launch thrower"), HasSubstr("boom in launch")));
}

TEST(Thrower, AnErrorOfLaunchKeepsCodeScopeAndVendorsCode) {
  const auto device = open_thrower();
  Stream stream = device->create_stream();
  Kernel kernel = device->create_kernel(add_of(4));
  rt_launch launch{};
  launch.input_count = 2;
  const Error error = error_of([&] { kernel.launch(stream, launch); });
  EXPECT_EQ(error.code(), RT_ERROR_DEVICE);
  EXPECT_EQ(error.scope(), RT_SCOPE_STREAM);
  EXPECT_STREQ(error.what(),
               "thrower:0: launch thrower: illegal address [RT_ERROR_DEVICE, VENDOR code -7]");
}

TEST(Thrower, OtherCallsAreCaughtToo) {
  const auto device = open_thrower();
  Stream stream = device->create_stream();
  EXPECT_THAT(error_of([&] { device->allocate(8); }).what(), HasSubstr("not a std::exception"));
  EXPECT_THAT(error_of([&] { stream.synchronize(); }).what(), HasSubstr("boom in synchronize"));
  EXPECT_THAT(error_of([&] { stream.copy(nullptr, nullptr, 8); }).what(), HasSubstr("[status 77]"));
  EXPECT_THAT(error_of([&] { device->create_event(); }).what(), HasSubstr("without a result"));
  EXPECT_THAT(error_of([&] { device->query(add_of(4)); }).what(), HasSubstr("boom in query"));
}

TEST(Thrower, DestructorsLogInsteadOfThrowing) {
  std::vector<std::string> log;
  HostServices services;
  services.log = [&](int32_t, const std::string&, const std::string& text) { log.push_back(text); };
  {
    const auto device = Device::open(Plugin::load(fixture("throwing"), services), 0);
    device->create_stream();
  }
  EXPECT_THAT(
      log, ::testing::ElementsAre(HasSubstr("boom in stream_destroy"), HasSubstr("boom in close"),
                                  HasSubstr("boom in shutdown")));
}

}  // namespace
}  // namespace plugins::host::testing
