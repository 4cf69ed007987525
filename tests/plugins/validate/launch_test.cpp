// The validation finds launches with wrong operands, and kernels that break their promises.
#include "plugins/validate/launch.h"

#include <cstring>

#include "tests/plugins/validate/validated.h"

namespace plugins::host::testing {
namespace {

// A device with an input, an output and a kernel, y = 2 x.
struct Bench {
  explicit Bench(std::shared_ptr<Device> opened) : device(std::move(opened)) {
    stream.fill(x.data(), 0, kBytes);
  }
  void run(const void* from, void* to) {
    launch(kernel, stream, from, to);
    stream.synchronize();
  }
  void run() { run(x.data(), y.data()); }

  std::shared_ptr<Device> device;
  Stream stream = device->create_stream();
  Memory x = device->allocate(kBytes + 256), y = device->allocate(kBytes + 256);
  Kernel kernel = device->create_kernel(scale());
};

class ValidatedLaunch : public ValidatedTest {
 protected:
  void expect_operand_fault(const char* text, const std::function<void(Bench&)>& body) {
    Bench bench(open());
    expect_finding(kRuntimeAtFault, text, [&] { body(bench); });
  }
  void expect_kernel_fault(const char* text, std::shared_ptr<Device> device) {
    Bench bench(std::move(device));
    expect_finding(kPluginAtFault, text, [&] { bench.run(); });
  }
};

char* at(const Memory& memory, int64_t offset) {
  return static_cast<char*>(memory.data()) + offset;
}

TEST_F(ValidatedLaunch, AGoodLaunchHasNoFindingAndItsResult) {
  {
    Bench bench(open());
    std::vector<float> values(kCount, 1.5F);
    bench.stream.copy(bench.x.data(), values.data(), kBytes);
    bench.run();
    bench.stream.copy(values.data(), bench.y.data(), kBytes);
    bench.stream.synchronize();
    EXPECT_EQ(values, std::vector<float>(kCount, 3.0F));
  }
  expect_no_finding();
}

TEST_F(ValidatedLaunch, InPlaceIsAllowedWhereThePlanSaysSo) {
  {
    Bench bench(open());
    ASSERT_EQ(bench.kernel.info().in_place[0] & 1U, 1U);
    bench.run(bench.x.data(), bench.x.data());
  }
  expect_no_finding();
}

TEST_F(ValidatedLaunch, AnOperandThatIsNotAligned) {
  expect_operand_fault("output 0: ", [](Bench& b) { b.run(b.x.data(), at(b.y, 4)); });
  EXPECT_THAT(validation_->findings().front(), HasSubstr("are not aligned to"));
}

TEST_F(ValidatedLaunch, OperandsThatOverlap) {
  expect_operand_fault("allows that to no pair", [](Bench& b) { b.run(b.x.data(), at(b.x, 256)); });
}

TEST_F(ValidatedLaunch, AnOperandThatIsMissing) {
  expect_operand_fault("is NULL", [](Bench& b) { b.run(nullptr, b.y.data()); });
}

TEST_F(ValidatedLaunch, AnOperandBeyondItsMemory) {
  expect_operand_fault("reach beyond the allocation",
                       [](Bench& b) { b.run(b.x.data(), at(b.y, 512)); });
}

TEST_F(ValidatedLaunch, AnOperandThatWasFreed) {
  expect_operand_fault("freed", [](Bench& b) {
    void* const gone = b.y.data();
    b.y = Memory();
    b.run(b.x.data(), gone);
  });
}

TEST_F(ValidatedLaunch, AnotherNumberOfOperands) {
  expect_operand_fault("0 inputs, but the plan has 1", [](Bench& b) {
    rt_launch launch{};
    launch.size = sizeof(launch);
    b.kernel.launch(b.stream, launch);
  });
}

// A fallback device computes in the host memory of the device that it stands in for.
TEST_F(ValidatedLaunch, HostMemoryOfAnotherDevice) {
  {
    Bench host(Device::open(Plugin::load(REFERENCE_PLUGIN, {}, validation_), 0));
    const auto device = open();
    const Memory pinned = device->allocate(kBytes, RT_MEMORY_PINNED_HOST);
    host.run(host.x.data(), pinned.data());
  }
  expect_no_finding();
}

TEST_F(ValidatedLaunch, DeviceMemoryOfAnotherDevice) {
  Bench bench(Device::open(Plugin::load(REFERENCE_PLUGIN, {}, validation_), 0)), other(open());
  expect_finding(kRuntimeAtFault, "belong to simulated:0",
                 [&] { bench.run(bench.x.data(), other.y.data()); });
}

TEST_F(ValidatedLaunch, AStreamOfAnotherDevice) {
  Bench bench(open()), other(open({}, 1));
  expect_finding(kRuntimeAtFault, "the plan was made for simulated:0",
                 [&] { launch(bench.kernel, other.stream, bench.x.data(), bench.y.data()); });
}

TEST_F(ValidatedLaunch, APlanThatIsDestroyedWhileItRuns) {
  [[maybe_unused]] const LeavesObjectsBehind on_purpose;
  Bench bench(open());
  launch(bench.kernel, bench.stream, bench.x.data(), bench.y.data());
  expect_finding(kRuntimeAtFault, "may still run", [&] {
    bench.kernel = Kernel();
    bench.stream.synchronize();  // the first call that can fail after it
  });
}

TEST_F(ValidatedLaunch, TheNameOfThePlanIsInTheFinding) {
  Bench bench(open());
  bench.device->plugin().name_object(bench.kernel.get(), "layer 'conv1'");
  expect_finding(kRuntimeAtFault, "launch of simulated:0: scale (layer 'conv1'): input 0",
                 [&] { bench.run(nullptr, bench.y.data()); });
}

TEST_F(ValidatedLaunch, AKernelThatWritesBehindItsOutput) {
  expect_kernel_fault("output 0: the kernel writes a byte 1 behind the end",
                      open({{"overrun", "scale"}}));
}

TEST_F(ValidatedLaunch, AKernelThatRunsLate) {
  expect_kernel_fault("is not written, or not in the order of the stream",
                      open({{"late", "scale"}}));
}

TEST_F(ValidatedLaunch, AKernelThatIsNotLaunched) {
  expect_kernel_fault("element 0 is not written", open_mutant("forgets_to_launch"));
}

TEST_F(ValidatedLaunch, AKernelThatVariesAndSaysSoIsNoFault) {
  { Bench(open({{"varying", "scale"}})).run(); }
  expect_no_finding();
}

// The kernels of the reference with one function replaced, called as tables.
class ValidatedTables : public ValidatedTest {
 protected:
  // Launches y = 2 x with `replace`, and with `info` in the place of the plan's own if it is given,
  // and returns the first finding.
  std::string launch_with(decltype(rt_kernel_api::launch) replace,
                          decltype(rt_kernel_api::info) info = nullptr) {
    Tables tables;
    tables.device = *good_->device_api();
    tables.kernel = *good_->kernel_api();
    plain_launch_ = tables.kernel->launch;
    plain_info_ = tables.kernel->info;
    tables.kernel->launch = replace;
    if (info != nullptr) tables.kernel->info = info;
    const auto plugin = validation_->wrap("faulty", good_->self(), tables, RT_ABI_MINOR);
    run(*plugin->tables().device, *plugin->tables().kernel, plugin->self());
    return validation_->findings().empty() ? "" : validation_->findings().front();
  }

  static inline decltype(rt_kernel_api::launch) plain_launch_ = nullptr;
  static inline decltype(rt_kernel_api::info) plain_info_ = nullptr;
  static inline float* x_ = nullptr;  // what the host launches with; the kernel gets copies

 private:
  void run(const rt_device_api& api, const rt_kernel_api& kernels, void* self) {
    rt_error error = {};
    error.size = sizeof(error);
    rt_device_options options{};
    options.size = sizeof(options);
    rt_device* device = nullptr;
    rt_stream* stream = nullptr;
    void *x = nullptr, *y = nullptr;
    ASSERT_EQ(api.open(self, 0, &options, &device, &error), RT_OK) << error.message;
    ASSERT_EQ(api.stream_create(device, &stream, &error), RT_OK);
    ASSERT_EQ(api.allocate(device, kBytes, RT_MEMORY_DEVICE, &x, &error), RT_OK);
    ASSERT_EQ(api.allocate(device, kBytes, RT_MEMORY_DEVICE, &y, &error), RT_OK);
    std::memset(x, 0, kBytes);
    x_ = static_cast<float*>(x);
    const Operation operation = scale();
    const OperationView view(operation);
    rt_plan* plan = nullptr;
    ASSERT_EQ(kernels.create(device, view.get(), &plan, &error), RT_OK) << error.message;
    const void* const input = x;
    rt_launch launch{};
    launch.size = sizeof(launch);
    launch.inputs = &input;
    launch.outputs = &y;
    launch.input_count = launch.output_count = 1;
    kernels.launch(plan, stream, &launch, &error);
    api.stream_synchronize(stream, &error);
    kernels.destroy(plan);
    api.stream_destroy(stream);
    api.free(device, x, RT_MEMORY_DEVICE);
    api.free(device, y, RT_MEMORY_DEVICE);
    api.close(device);
  }

  std::shared_ptr<Plugin> good_ = Plugin::load(REFERENCE_PLUGIN, {});
};

TEST_F(ValidatedTables, TheGoodTablesHaveNoFinding) {
  EXPECT_EQ(launch_with([](rt_plan* plan, rt_stream* stream, const rt_launch* launch,
                           rt_error* error) { return plain_launch_(plan, stream, launch, error); }),
            "");
}

TEST_F(ValidatedTables, AKernelThatChangesItsInput) {
  const std::string finding = launch_with(
      [](rt_plan* plan, rt_stream* stream, const rt_launch* launch, rt_error* error) -> rt_status {
        const rt_status status = plain_launch_(plan, stream, launch, error);
        static_cast<char*>(const_cast<void*>(launch->inputs[0]))[3] = 1;
        return status;
      });
  EXPECT_THAT(finding, HasSubstr(kPluginAtFault));
  EXPECT_THAT(finding, HasSubstr("input 0: the kernel changes byte 3 of what it may only read"));
}

TEST_F(ValidatedTables, AKernelThatWritesInFrontOfAnOperand) {
  const std::string finding = launch_with(
      [](rt_plan* plan, rt_stream* stream, const rt_launch* launch, rt_error* error) -> rt_status {
        static_cast<char*>(const_cast<void*>(launch->inputs[0]))[-1] = 1;
        return plain_launch_(plan, stream, launch, error);
      });
  EXPECT_THAT(finding, HasSubstr("input 0: the kernel writes a byte 1 in front of it"));
}

TEST_F(ValidatedTables, AResultThatDependsOnWhatItsMemoryHeld) {
  const std::string finding = launch_with(
      [](rt_plan* plan, rt_stream* stream, const rt_launch* launch, rt_error* error) -> rt_status {
        auto* const y = static_cast<unsigned char*>(launch->outputs[0]);
        const unsigned char held = y[7];
        const rt_status status = plain_launch_(plan, stream, launch, error);
        y[7] = held / 2;
        return status;
      });
  EXPECT_THAT(finding, HasSubstr(kPluginAtFault));
  EXPECT_THAT(finding, HasSubstr("depends on what its memory or the workspace held before"));
}

TEST_F(ValidatedTables, AClaimOfDeterminismThatIsNotKept) {
  const std::string finding = launch_with(
      [](rt_plan* plan, rt_stream* stream, const rt_launch* launch, rt_error* error) -> rt_status {
        static int calls = 0;
        const rt_status status = plain_launch_(plan, stream, launch, error);
        static_cast<float*>(launch->outputs[0])[5] = static_cast<float>(++calls);
        return status;
      });
  EXPECT_THAT(finding, HasSubstr("deterministic, but a second launch gives other bits"));
}

TEST_F(ValidatedTables, AnElementThatIsNotWritten) {
  const std::string finding = launch_with(
      [](rt_plan* plan, rt_stream* stream, const rt_launch* launch, rt_error* error) -> rt_status {
        auto* const y = static_cast<float*>(launch->outputs[0]);
        const float held = y[kCount - 1];
        const rt_status status = plain_launch_(plan, stream, launch, error);
        std::memcpy(y + kCount - 1, &held, sizeof(held));
        return status;
      });
  EXPECT_THAT(finding, HasSubstr("element 999 is not written"));
}

// A plan that does not promise the same bits in each launch.
rt_status without_determinism(decltype(rt_kernel_api::info) plain, const rt_plan* plan,
                              rt_plan_info* info, rt_error* error) {
  const rt_status status = plain(plan, info, error);
  info->flags &= ~static_cast<uint32_t>(RT_PLAN_DETERMINISTIC);
  return status;
}

TEST_F(ValidatedTables, LaunchesThatDifferByMoreThanIsClaimed) {
  const std::string finding = launch_with(
      [](rt_plan* plan, rt_stream* stream, const rt_launch* launch, rt_error* error) -> rt_status {
        static int calls = 0;
        const rt_status status = plain_launch_(plan, stream, launch, error);
        static_cast<float*>(launch->outputs[0])[5] = static_cast<float>(++calls);
        return status;
      },
      [](const rt_plan* plan, rt_plan_info* info, rt_error* error) -> rt_status {
        return without_determinism(plain_info_, plan, info, error);
      });
  EXPECT_THAT(finding, HasSubstr(kPluginAtFault));
  EXPECT_THAT(finding, HasSubstr("more than twice the tolerance that the plugin claims"));
}

TEST_F(ValidatedTables, AnInputThatChangesDuringTheLaunch) {
  const std::string finding = launch_with(
      [](rt_plan* plan, rt_stream* stream, const rt_launch* launch, rt_error* error) -> rt_status {
        x_[3] += 1;  // as another stream would that nothing orders with this one
        return plain_launch_(plan, stream, launch, error);
      });
  EXPECT_THAT(finding, HasSubstr(kRuntimeAtFault));
  EXPECT_THAT(finding, HasSubstr("something that is not ordered with this launch changes it"));
}

// The simulated device with one function replaced, through the handles of the host.
TEST_F(ValidatedLaunch, APlanThatIsNotAsDeterministicAsWasAsked) {
  static decltype(rt_kernel_api::info) plain = nullptr;
  const auto good = Plugin::load(REFERENCE_PLUGIN, {});
  Tables tables;
  tables.device = *good->device_api();
  tables.kernel = *good->kernel_api();
  plain = tables.kernel->info;
  tables.kernel->info = [](const rt_plan* plan, rt_plan_info* info, rt_error* error) -> rt_status {
    return without_determinism(plain, plan, info, error);
  };
  FaultyDevice faulty(*validation_, *good, tables);
  Operation operation = scale();
  operation.flags = RT_OP_DETERMINISTIC;
  const OperationView view(operation);
  rt_plan* plan = nullptr;
  expect_finding(kPluginAtFault, "a deterministic plan was asked for", [&] {
    EXPECT_NE(
        faulty.plugin->tables().kernel->create(faulty.device, view.get(), &plan, &faulty.error),
        RT_OK);
  });
}

TEST_F(ValidatedLaunch, APlanThatCannotBeRecorded) {
  static decltype(rt_kernel_api::info) plain = nullptr;
  const auto good = Plugin::load(SIMULATED_PLUGIN, {});
  Tables tables;
  tables.device = *good->device_api();
  tables.kernel = *good->kernel_api();
  tables.capture = *good->capture_api();
  plain = tables.kernel->info;
  tables.kernel->info = [](const rt_plan* plan, rt_plan_info* info, rt_error* error) -> rt_status {
    const rt_status status = plain(plan, info, error);
    info->flags &= ~static_cast<uint32_t>(RT_PLAN_CAPTURABLE);
    return status;
  };
  FaultyDevice faulty(*validation_, *good, tables);
  rt_stream* stream = nullptr;
  rt_plan* plan = nullptr;
  const Operation operation = scale();
  const OperationView view(operation);
  ASSERT_EQ(faulty.api.stream_create(faulty.device, &stream, &faulty.error), RT_OK);
  ASSERT_EQ(faulty.plugin->tables().kernel->create(faulty.device, view.get(), &plan, &faulty.error),
            RT_OK);
  ASSERT_EQ(faulty.plugin->tables().capture->begin(stream, &faulty.error), RT_OK);
  rt_launch launch{};
  launch.size = sizeof(launch);
  expect_finding(kRuntimeAtFault, "the plan is not RT_PLAN_CAPTURABLE", [&] {
    faulty.plugin->tables().kernel->launch(plan, stream, &launch, &faulty.error);
  });
  faulty.plugin->tables().capture->end(stream, nullptr, &faulty.error);
  faulty.plugin->tables().kernel->destroy(plan);
  faulty.api.stream_destroy(stream);
}

TEST_F(ValidatedLaunch, AForwardPlanThatIsDestroyedFirst) {
  [[maybe_unused]] const LeavesObjectsBehind on_purpose;
  const auto device = open();
  Operation pool;
  pool.name = RT_OP_MAX_POOL2D;
  pool.inputs = {make_tensor_desc(RT_FLOAT32, {1, 4, 4, 1})};
  pool.outputs = {make_tensor_desc(RT_FLOAT32, {1, 2, 2, 1})};
  pool.attributes = {{RT_ATTR_KERNEL_H, int64_t{2}},
                     {RT_ATTR_KERNEL_W, int64_t{2}},
                     {RT_ATTR_STRIDE_H, int64_t{2}},
                     {RT_ATTR_STRIDE_W, int64_t{2}}};
  Operation back = pool;
  back.name = RT_OP_MAX_POOL2D_BACKWARD;
  std::swap(back.inputs, back.outputs);
  Kernel forward = device->create_kernel(pool);
  back.forward = forward.get();
  const Kernel backward = device->create_kernel(back);
  Stream stream = device->create_stream();
  expect_finding(kRuntimeAtFault, "still lives; destroy it before its forward plan", [&] {
    forward = Kernel();
    stream.synchronize();  // the first call that can fail after it
  });
}

TEST_F(ValidatedLaunch, ADeviceThatIsOpenAtTheShutdown) {
  [[maybe_unused]] const LeavesObjectsBehind on_purpose;
  const auto good = Plugin::load(REFERENCE_PLUGIN, {});
  Tables tables;
  tables.device = *good->device_api();
  rt_error error = {};
  error.size = sizeof(error);
  rt_device_options options{};
  options.size = sizeof(options);
  rt_device* device = nullptr;
  expect_finding(kRuntimeAtFault, "left: device 'reference:0'", [&] {
    const auto plugin = validation_->wrap("reference", good->self(), tables, RT_ABI_MINOR);
    ASSERT_EQ(plugin->tables().device->open(plugin->self(), 0, &options, &device, &error), RT_OK);
  });
}

TEST_F(ValidatedLaunch, MemoryThatIsGivenOutTwice) {
  const auto good = Plugin::load(REFERENCE_PLUGIN, {});
  static decltype(rt_device_api::allocate) plain = nullptr;
  Tables tables;
  tables.device = *good->device_api();
  plain = tables.device->allocate;
  tables.device->allocate = [](rt_device* device, uint64_t bytes, int32_t kind, void** address,
                               rt_error* error) -> rt_status {
    static void* first = nullptr;
    const rt_status status = first == nullptr ? plain(device, bytes, kind, &first, error) : RT_OK;
    *address = first;
    return status;
  };
  FaultyDevice faulty(*validation_, *good, tables);
  void *a = nullptr, *b = nullptr;
  ASSERT_EQ(faulty.api.allocate(faulty.device, kBytes, RT_MEMORY_DEVICE, &a, &faulty.error), RT_OK);
  expect_finding(kPluginAtFault, "overlap memory that is still allocated", [&] {
    EXPECT_EQ(faulty.api.allocate(faulty.device, kBytes, RT_MEMORY_DEVICE, &b, &faulty.error),
              RT_ERROR_INTERNAL);
  });
  faulty.api.free(faulty.device, a, RT_MEMORY_DEVICE);
}

}  // namespace
}  // namespace plugins::host::testing
