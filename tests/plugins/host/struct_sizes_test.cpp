// Structs that grew after version 1: plugins that know fewer or more fields than the host, and
// hosts that know fewer or more fields than the plugins of this tree.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "plugins/host/communicator.h"
#include "plugins/host/device.h"
#include "plugins/host/limits.h"
#include "tests/plugins/host/support.h"

namespace plugins::host::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

rt_device_properties properties_of(const std::string& name) {
  return list_devices(*Plugin::load(fixture(name), {})).at(0).properties;
}

TEST(DeviceProperties, OfAnOlderPluginHaveDefaults) {
  // The first fills the struct of version 1 and says so. The second was never told of the fields.
  for (const char* name : {"misbehaving_older_properties", "throwing"}) {
    const rt_device_properties p = properties_of(name);
    EXPECT_EQ(p.size, sizeof(p)) << name;
    EXPECT_EQ(p.priority, 0) << name;
    EXPECT_EQ(p.threads, 0) << name;
    EXPECT_EQ(p.largest_buffer, 0u) << name;
    EXPECT_EQ(p.alignment, 64u) << name;
  }
}

TEST(DeviceProperties, OfANewerPluginAreTakenAsFarAsTheyAreKnown) {
  const rt_device_properties p = properties_of("misbehaving_newer_properties");
  EXPECT_EQ(p.size, sizeof(p));
  EXPECT_EQ(p.priority, 5);
  EXPECT_EQ(p.threads, 3);
  EXPECT_EQ(p.largest_buffer, 4096u);
  EXPECT_STREQ(p.name, "a device");
}

rt_comm_properties filled(uint32_t size) {
  rt_comm_properties p{};
  p.size = size;
  p.flags = RT_COMM_ABORT_WAKES;
  p.ranks = RT_RANKS_THREADS;
  p.priority = 9;
  p.latency_ns = 1000;
  p.bytes_per_second = 2000;
  return p;
}

TEST(CommunicatorProperties, OfOtherVersions) {
  rt_comm_properties older = filled(RT_COMM_PROPERTIES_SIZE_V1);
  check_properties(older, "older");
  EXPECT_EQ(older.size, sizeof(older));
  EXPECT_EQ(older.flags, RT_COMM_ABORT_WAKES);
  EXPECT_EQ(older.ranks, static_cast<uint32_t>(RT_RANKS_ANY_PROCESS));
  EXPECT_EQ(older.priority, 0);
  EXPECT_EQ(older.latency_ns, 0);
  EXPECT_EQ(older.bytes_per_second, 0);
  rt_comm_properties newer = filled(sizeof(newer) + 64);
  check_properties(newer, "newer");
  EXPECT_EQ(newer.size, sizeof(newer));
  EXPECT_EQ(newer.ranks, static_cast<uint32_t>(RT_RANKS_THREADS));
  EXPECT_EQ(newer.bytes_per_second, 2000);
}

TEST(CommunicatorProperties, AreRefusedIfTheyCannotBeTrue) {
  const auto refusal = [](auto&& change) {
    rt_comm_properties p = filled(sizeof(p));
    change(p);
    return error_of([&] { check_properties(p, "fake"); });
  };
  EXPECT_THAT(refusal([](auto& p) { p.ranks = 3; }).what(),
              AllOf(HasSubstr("ranks"), HasSubstr("from 0 to 2")));
  EXPECT_THAT(refusal([](auto& p) { p.priority = -1; }).what(), HasSubstr("priority"));
  EXPECT_THAT(refusal([](auto& p) { p.latency_ns = -1; }).what(), HasSubstr("latency_ns"));
  EXPECT_THAT(refusal([](auto& p) { p.bytes_per_second = -1; }).what(),
              HasSubstr("bytes_per_second"));
}

// ---- the kernels that a plan tells

struct LaterWork {
  rt_kernel_work known;
  uint64_t appended;
};

TEST(PlanInfo, KernelsOfALaterVersionAreFurtherApart) {
  LaterWork work[2] = {{{sizeof(LaterWork), 0, 10, 20, "first"}, 1},
                       {{sizeof(LaterWork), 0, 30, 0, "sec\nond"}, 1}};
  rt_plan_info info{};
  info.size = sizeof(info);
  info.work = &work[0].known;
  info.work_count = 2;
  const std::vector<KernelWork> told = checked_work(info, "a plan");
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].name, "first");
  EXPECT_EQ(told[0].bytes, 10);
  EXPECT_EQ(told[0].flops, 20);
  EXPECT_EQ(told[1].bytes, 30);
  EXPECT_EQ(told[1].name.find('\n'), std::string::npos);
}

TEST(PlanInfo, OfAnOlderPluginTellsNoKernels) {
  rt_kernel_work work{sizeof(work), 0, 1, 1, "x"};
  rt_plan_info info{};
  info.size = RT_PLAN_INFO_SIZE_V1;  // what the plugin says that it knows
  info.work = &work;
  info.work_count = 1;
  check_plan(info, {}, "a plan");
  EXPECT_TRUE(checked_work(info, "a plan").empty());
}

TEST(PlanInfo, KernelsAreRefusedIfTheyCannotBeTrue) {
  const auto refusal = [](rt_kernel_work work, uint32_t count) {
    rt_plan_info info{};
    info.work = &work;
    info.work_count = count;
    return std::string(error_of([&] { checked_work(info, "fake"); }).what());
  };
  constexpr uint32_t kSize = sizeof(rt_kernel_work);
  EXPECT_THAT(refusal({kSize, 0, -1, 0, ""}, 1), HasSubstr("bytes"));
  EXPECT_THAT(refusal({kSize, 0, 0, NAN, ""}, 1), HasSubstr("flops"));
  EXPECT_THAT(refusal({8, 0, 0, 0, ""}, 1), HasSubstr("at least 72"));
  EXPECT_THAT(refusal({kSize, 0, 0, 0, ""}, 1u << 30), HasSubstr("work_count"));
}

// ---- the plugins of this tree under hosts of other versions

constexpr unsigned char kUntouched = 0xA5;

// Calls `fill` with a struct of `size` bytes, of which the plugin may know `known`. Returns whether
// it succeeded and touched nothing beyond the smaller of the two sizes.
template <typename T, typename Fill>
bool fills_only(uint32_t size, Fill&& fill) {
  alignas(8) unsigned char bytes[sizeof(T) + 128];
  std::memset(bytes, kUntouched, sizeof(bytes));
  T* output = reinterpret_cast<T*>(bytes);
  std::memset(bytes, 0, size);
  output->size = size;
  rt_error error{};
  error.size = sizeof(error);
  if (fill(output, &error) != RT_OK || output->size != size) return false;
  const std::size_t first = size;
  return std::all_of(bytes + first, bytes + sizeof(bytes),
                     [](unsigned char b) { return b == kUntouched; });
}

std::vector<fs::path> plugins_of_this_tree() {
  std::vector<fs::path> list = {fixture("example"), fixture("template_device"),
                                fixture("fake_communicator")};
  for (const auto& entry : fs::directory_iterator(BUILT_IN_FOLDER))
    if (entry.path().extension() == ".so") list.push_back(entry.path());
  return list;
}

TEST(PluginsOfThisTree, FillWhatTheHostKnows) {
  for (const fs::path& path : plugins_of_this_tree()) {
    const auto plugin = Plugin::load(path, {});
    const rt_device_api* device = plugin->device_api();
    for (const uint32_t size :
         {uint32_t{RT_DEVICE_PROPERTIES_SIZE_V1}, uint32_t{sizeof(rt_device_properties) + 64}}) {
      if (device == nullptr) break;
      EXPECT_TRUE(fills_only<rt_device_properties>(
          size, [&](auto* p, rt_error* e) { return device->properties(plugin->self(), 0, p, e); }))
          << path << " " << size;
    }
    const rt_communicator_api* communicator = plugin->communicator_api();
    for (const uint32_t size :
         {uint32_t{RT_COMM_PROPERTIES_SIZE_V1}, uint32_t{sizeof(rt_comm_properties) + 64}}) {
      if (communicator == nullptr) break;
      EXPECT_TRUE(fills_only<rt_comm_properties>(
          size,
          [&](auto* p, rt_error* e) { return communicator->properties(plugin->self(), p, e); }))
          << path << " " << size;
    }
  }
}

// An input of a later host: the fields of this version, and one more that is in use.
template <typename T>
struct Newer {
  explicit Newer(const T& value) : known(value) { known.size = sizeof(*this); }
  T known;
  uint64_t appended = 1;
};

Operation scale() {
  Operation op;
  op.name = "scale";
  op.inputs = op.outputs = {make_tensor_desc(RT_FLOAT32, {4})};
  op.attributes = {{"alpha", 2.0}};
  op.post_ops = {{.kind = RT_POST_ACTIVATION, .function = 1, .operand = -1}};
  return op;
}

// Puts the newer form of one struct of `view` after the other in its place, and returns the answers
// of `create`.
std::vector<rt_status> create_with_newer_parts(const Device& device, const rt_op_desc& view) {
  const Newer<rt_tensor_desc> tensor(*view.inputs[0]);
  const Newer<rt_attribute> attribute(*view.attributes[0]);
  const Newer<rt_post_op> post_op(*view.post_ops[0]);
  const rt_tensor_desc* const tensors[] = {&tensor.known};
  const rt_attribute* const attributes[] = {&attribute.known};
  const rt_post_op* const post_ops[] = {&post_op.known};
  Newer<rt_op_desc> newer(view);
  std::vector<rt_op_desc> forms(4, view);
  forms[0].inputs = tensors;
  forms[1].outputs = tensors;
  forms[2].attributes = attributes;
  forms[3].post_ops = post_ops;
  std::vector<const rt_op_desc*> all = {&newer.known};
  for (const rt_op_desc& form : forms) all.push_back(&form);
  std::vector<rt_status> answers;
  for (const rt_op_desc* form : all) {
    rt_plan* plan = nullptr;
    rt_error error{};
    error.size = sizeof(error);
    answers.push_back(device.plugin().kernel_api()->create(device.get(), form, &plan, &error));
  }
  return answers;
}

TEST(PluginsOfThisTree, RefuseADescriptionWithATail) {
  for (const fs::path& path : plugins_of_this_tree()) {
    const auto plugin = Plugin::load(path, {});
    if (plugin->kernel_api() == nullptr || !list_devices(*plugin).at(0).usable()) continue;
    rt_device_options options{};
    const Newer<rt_device_options> newer(options);
    rt_device* opened = nullptr;
    EXPECT_EQ(plugin->device_api()->open(plugin->self(), 0, &newer.known, &opened, nullptr),
              RT_ERROR_TOO_NEW)
        << path;
    const auto device = Device::open(plugin, 0, {});
    Operation op = scale();
    const OperationView view(op);
    EXPECT_THAT(create_with_newer_parts(*device, *view.get()),
                ::testing::ElementsAre(RT_ERROR_TOO_NEW, RT_ERROR_TOO_NEW, RT_ERROR_TOO_NEW,
                                       RT_ERROR_TOO_NEW, RT_ERROR_TOO_NEW))
        << path;
    const Newer<rt_tensor_desc> tensor(op.inputs[0]);
    uint64_t bytes = 0;
    EXPECT_EQ(plugin->kernel_api()->layout_bytes(device->get(), &tensor.known, &bytes, nullptr),
              RT_ERROR_TOO_NEW)
        << path;
    op.post_ops.clear();
    Kernel kernel = device->create_kernel(op);
    Stream stream = device->create_stream();
    const Newer<rt_launch> launch({});
    EXPECT_EQ(device->plugin().kernel_api()->launch(const_cast<rt_plan*>(kernel.get()),
                                                    stream.get(), &launch.known, nullptr),
              RT_ERROR_TOO_NEW)
        << path;
  }
}

TEST(PluginsOfThisTree, RefuseToJoinWithATail) {
  for (const fs::path& path : plugins_of_this_tree()) {
    const auto plugin = Plugin::load(path, {});
    if (plugin->communicator_api() == nullptr) continue;
    rt_comm_options options{};
    options.world_size = 1;
    options.prefix = options.interface = "";
    const Newer<rt_comm_options> newer(options);
    rt_communicator* communicator = nullptr;
    EXPECT_EQ(
        plugin->communicator_api()->create(plugin->self(), &newer.known, &communicator, nullptr),
        RT_ERROR_TOO_NEW)
        << path;
    if (plugin->name() != "local") continue;  // the others need a store to meet in
    const auto alone = Communicator::create(plugin, {.prefix = "alone"});
    const Newer<rt_collective> call(make_collective(RT_BARRIER, RT_FLOAT32, nullptr, nullptr, 0));
    rt_work* work = nullptr;
    EXPECT_EQ(plugin->communicator_api()->enqueue(alone->get(), &call.known, &work, nullptr),
              RT_ERROR_TOO_NEW);
  }
}

}  // namespace
}  // namespace plugins::host::testing
