// The simulated accelerator catches the faults that it was made to catch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "plugins/host/device.h"
#include "plugins/host/drain.h"
#include "plugins/host/error.h"
#include "rt/operations.h"

namespace {

using plugins::host::Device;
using plugins::host::Error;
using plugins::host::Event;
using plugins::host::Kernel;
using plugins::host::make_tensor_desc;
using plugins::host::Memory;
using plugins::host::Operation;
using plugins::host::Plugin;
using plugins::host::Stream;
using plugins::host::Support;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr int64_t kCount = 1000;
constexpr uint64_t kBytes = kCount * sizeof(float);

class SimulatedTest : public testing::Test {
 protected:
  std::shared_ptr<Device> open(std::map<std::string, std::string> options = {}, int32_t index = 0) {
    return Device::open(plugin_, index, {0, std::move(options)});
  }
  std::shared_ptr<Plugin> plugin_ = Plugin::load(SIMULATED_PLUGIN, {});
};

// y = value
Kernel make_fill(Device& device, double value) {
  Operation op;
  op.name = RT_OP_FILL;
  op.outputs = {make_tensor_desc(RT_FLOAT32, {kCount})};
  op.attributes = {{RT_ATTR_VALUE, value}};
  return device.create_kernel(op);
}

// y = 2 x
Kernel make_double(Device& device) {
  Operation op;
  op.name = RT_OP_SCALE;
  op.inputs = {make_tensor_desc(RT_FLOAT32, {kCount})};
  op.outputs = op.inputs;
  op.attributes = {{RT_ATTR_ALPHA, 2.0}};
  return device.create_kernel(op);
}

void launch(Kernel& kernel, Stream& stream, std::vector<const void*> inputs, void* output) {
  rt_launch launch{};
  launch.size = sizeof(launch);
  launch.inputs = inputs.data();
  launch.input_count = static_cast<uint32_t>(inputs.size());
  launch.outputs = &output;
  launch.output_count = 1;
  kernel.launch(stream, launch);
}

std::vector<float> download(Stream& stream, const Memory& memory) {
  std::vector<float> values(kCount);
  stream.copy(values.data(), memory.data(), kBytes);
  stream.synchronize();
  return values;
}

template <typename Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an error";
  return Error(RT_OK, "");
}

TEST_F(SimulatedTest, IsQueuedAndHasNoHostMemory) {
  const auto device = open();
  EXPECT_FALSE(device->is_inline());
  EXPECT_FALSE(device->host_memory());
  EXPECT_EQ(list_devices(*plugin_).size(), 2u);
}

// The text before the access shows that nothing else ended the process.
TEST_F(SimulatedTest, HostReadOfDeviceMemoryFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const Memory memory = open()->allocate(kBytes);
        std::fputs("will read", stderr);
        static_cast<void>(*static_cast<volatile float*>(memory.data()));
        std::exit(0);
      },
      "will read");
}

TEST_F(SimulatedTest, HostWriteOfDeviceMemoryFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const Memory memory = open()->allocate(kBytes);
        std::fputs("will write", stderr);
        *static_cast<volatile float*>(memory.data()) = 1.0f;
        std::exit(0);
      },
      "will write");
}

TEST_F(SimulatedTest, ABufferHasAtMostTheBytesThatTheEnvironmentAllows) {
  EXPECT_EQ(open()->properties().largest_buffer, 0u);
  EXPECT_TRUE(open()->allocate(8192));
  ::setenv("RUNTIME_SIMULATED_LARGEST_BUFFER", "4096", 1);
  const auto plugin = Plugin::load(SIMULATED_PLUGIN, {});
  ::unsetenv("RUNTIME_SIMULATED_LARGEST_BUFFER");
  const auto device = Device::open(plugin, 0, {});
  EXPECT_EQ(device->properties().largest_buffer, 4096u);
  for (const int32_t kind : {RT_MEMORY_DEVICE, RT_MEMORY_PINNED_HOST}) {
    EXPECT_TRUE(device->allocate(4096, kind));
    const Error error = error_of([&] { device->allocate(4097, kind); });
    EXPECT_EQ(error.code(), RT_ERROR_OUT_OF_MEMORY);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("simulated:0: allocate 4097 bytes"), HasSubstr("at most 4096")));
    void* address = nullptr;
    rt_error refusal = plugins::host::make_error();
    EXPECT_EQ(plugin->device_api()->allocate(device->get(), 4097, kind, &address, &refusal),
              RT_ERROR_OUT_OF_MEMORY);
  }
}

TEST_F(SimulatedTest, RunsWorkInOrder) {
  const auto device = open({{"max_delay_us", "200"}});
  Stream stream = device->create_stream();
  const Memory x = device->allocate(kBytes), y = device->allocate(kBytes);
  Kernel fill = make_fill(*device, 1.5), twice = make_double(*device);
  launch(fill, stream, {}, x.data());
  launch(twice, stream, {x.data()}, y.data());
  EXPECT_THAT(download(stream, y), Each(3.0f));
}

TEST_F(SimulatedTest, StagesAPageableSourceAndReadsAPinnedOneLater) {
  const auto device = open({{"max_delay_us", "20000"}, {"seed", "3"}});
  Stream stream = device->create_stream();
  const Memory x = device->allocate(kBytes);
  std::vector<float> pageable(kCount, 1.0f);
  stream.copy(x.data(), pageable.data(), kBytes);
  std::fill(pageable.begin(), pageable.end(), 2.0f);
  EXPECT_THAT(download(stream, x), Each(1.0f));

  const Memory pinned = device->allocate(kBytes, RT_MEMORY_PINNED_HOST);
  auto* values = static_cast<float*>(pinned.data());
  Event gate = device->create_event();
  Stream other = device->create_stream();
  for (int i = 0; i < 20; ++i) other.fill(x.data(), 0, kBytes);
  gate.record(other);
  gate.wait(stream);
  std::fill_n(values, kCount, 1.0f);
  stream.copy(x.data(), values, kBytes);
  std::fill_n(values, kCount, 2.0f);  // too early, because the copy still waits for `other`
  EXPECT_THAT(download(stream, x), Each(2.0f));
}

// One attempt: one stream writes slowly, another reads. With `wait` the reader waits for the event.
std::vector<float> produce_and_read(Device& device, bool wait) {
  Stream producer = device.create_stream(), consumer = device.create_stream();
  const Memory x = device.allocate(kBytes), y = device.allocate(kBytes);
  Kernel fill = make_fill(device, 1.5), twice = make_double(device);
  Event ready = device.create_event();
  launch(fill, producer, {}, x.data());
  ready.record(producer);
  if (wait) ready.wait(consumer);
  launch(twice, consumer, {x.data()}, y.data());
  std::vector<float> result = download(consumer, y);
  producer.synchronize();
  return result;
}

TEST_F(SimulatedTest, AMissingEventWaitShowsAsPoison) {
  const auto device = open({{"max_delay_us", "2000"}, {"poison", "true"}});
  for (int attempt = 0; attempt < 200; ++attempt) {
    for (const float value : produce_and_read(*device, false)) {
      if (std::isnan(value)) return;
    }
  }
  FAIL() << "200 reads without a wait all saw the producer's result";
}

TEST_F(SimulatedTest, AnEventWaitIsEnough) {
  const auto device = open({{"max_delay_us", "2000"}, {"poison", "true"}});
  for (int attempt = 0; attempt < 20; ++attempt) {
    EXPECT_THAT(produce_and_read(*device, true), Each(3.0f));
  }
}

TEST_F(SimulatedTest, EventsTellWhenTheirWorkIsDone) {
  const auto device = open({{"max_delay_us", "1000"}});
  Stream stream = device->create_stream();
  const Memory x = device->allocate(kBytes);
  Event begin = device->create_event(), end = device->create_event();
  EXPECT_TRUE(begin.query()) << "never recorded counts as complete";
  begin.record(stream);
  for (int i = 0; i < 50; ++i) stream.fill(x.data(), 0, kBytes);
  end.record(stream);
  EXPECT_FALSE(end.query());
  end.synchronize();
  EXPECT_TRUE(end.query());
  EXPECT_GT(Event::elapsed(begin, end).count(), 0);
}

// Two algorithms, the second of which takes 30 nanoseconds, and 1000 more when its plan is new.
TEST_F(SimulatedTest, AClockOfItsOwnMovesByWhatLaunchesTake) {
  const auto device = open({{"algorithm_ns", "20,30"}, {"load_ns", "1000"}});
  Operation op;
  op.name = RT_OP_FILL;
  op.outputs = {make_tensor_desc(RT_FLOAT32, {kCount})};
  const Support support = device->query(op);
  ASSERT_EQ(support.candidates.size(), 2u);
  op.algorithm = support.candidates[1].algorithm;
  Kernel kernel = device->create_kernel(op);
  Stream stream = device->create_stream();
  const Memory memory = device->allocate(kBytes);
  Event begin = device->create_event(), loaded = device->create_event(),
        end = device->create_event();
  begin.record(stream);
  launch(kernel, stream, {}, memory.data());
  loaded.record(stream);
  for (int i = 0; i < 3; ++i) launch(kernel, stream, {}, memory.data());
  end.record(stream);
  stream.synchronize();
  EXPECT_EQ(Event::elapsed(begin, loaded).count(), 1030);
  EXPECT_EQ(Event::elapsed(loaded, end).count(), 90);
  op.algorithm = 3;
  EXPECT_THAT(error_of([&] { device->create_kernel(op); }).what(),
              HasSubstr("algorithm 3 is not one of the candidates"));
}

TEST_F(SimulatedTest, FreeingTooEarlyIsAnErrorOfTheStream) {
  const auto device = open({{"max_delay_us", "1000"}});
  Stream stream = device->create_stream();
  Kernel fill = make_fill(*device, 1.5);
  {
    const Memory busy = device->allocate(kBytes);
    for (int i = 0; i < 50; ++i) stream.fill(busy.data(), 0, kBytes);
    launch(fill, stream, {}, busy.data());
  }
  const Error error = error_of([&] { stream.synchronize(); });
  EXPECT_THAT(error.what(), HasSubstr("freed too early"));
}

TEST_F(SimulatedTest, RefusesMemoryOfAnotherDeviceNamingBoth) {
  const auto here = open(), there = open({}, 1);
  Stream stream = here->create_stream();
  const Memory x = there->allocate(kBytes), y = here->allocate(kBytes);
  Kernel twice = make_double(*here);
  launch(twice, stream, {x.data()}, y.data());
  const Error launched = error_of([&] { stream.synchronize(); });
  EXPECT_EQ(launched.code(), RT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(launched.what(),
              AllOf(HasSubstr("scale: input 0"), HasSubstr("belongs to simulated:1"),
                    HasSubstr("expected memory of simulated:0")));
  const Error copied = error_of([&] {
    stream.copy(y.data(), x.data(), kBytes);
    stream.synchronize();
  });
  EXPECT_THAT(copied.what(), HasSubstr("simulated:1"));
}

TEST_F(SimulatedTest, RefusesHostMemoryAndShortOrUnalignedBuffersInKernels) {
  const auto device = open();
  Stream stream = device->create_stream();
  Kernel fill = make_fill(*device, 1.0);
  std::vector<float> host(kCount);
  launch(fill, stream, {}, host.data());
  EXPECT_THAT(error_of([&] { stream.synchronize(); }).what(), HasSubstr("belongs to no device"));
  const Memory wide = device->allocate(2 * kBytes);
  launch(fill, stream, {}, static_cast<std::byte*>(wide.data()) + 64);
  EXPECT_THAT(error_of([&] { stream.synchronize(); }).what(), HasSubstr("not aligned to 256"));
  const Memory small = device->allocate(kBytes - 4);
  launch(fill, stream, {}, small.data());
  EXPECT_THAT(error_of([&] { stream.synchronize(); }).what(), HasSubstr("one allocation"));
}

TEST_F(SimulatedTest, LimitsItsMemory) {
  const auto device = open({{"memory_mb", "2"}});
  {
    const Memory first = device->allocate(1 << 20);
    const Error error = error_of([&] { device->allocate((1 << 20) + 1); });
    EXPECT_EQ(error.code(), RT_ERROR_OUT_OF_MEMORY);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("1048577 bytes"), HasSubstr("1048576 of 2097152")));
    EXPECT_EQ(device->memory_info().allocated_bytes, 1u << 20);
  }
  EXPECT_EQ(device->memory_info().free_bytes, 2u << 20);
  EXPECT_TRUE(device->allocate(2 << 20));
}

TEST_F(SimulatedTest, ReusesFreedMemory) {
  const auto device = open({{"memory_mb", "1"}});
  Memory blocks[4];
  for (Memory& block : blocks) block = device->allocate(256 << 10);
  const void* second = blocks[1].data();
  blocks[1] = Memory();
  EXPECT_EQ(device->allocate(100).data(), second);
}

TEST_F(SimulatedTest, PoisonsFreshMemory) {
  const auto device = open({{"poison", "true"}});
  Stream stream = device->create_stream();
  const Memory x = device->allocate(kBytes);
  for (const float value : download(stream, x)) ASSERT_TRUE(std::isnan(value));
}

TEST_F(SimulatedTest, InjectsAFaultIntoTheNamedOperation) {
  const auto device = open({{"fail_launch", "scale"}, {"fail_after", "2"}});
  Stream stream = device->create_stream();
  const Memory x = device->allocate(kBytes), y = device->allocate(kBytes);
  Kernel fill = make_fill(*device, 1.0), twice = make_double(*device);
  launch(fill, stream, {}, x.data());
  for (int i = 0; i < 2; ++i) launch(twice, stream, {x.data()}, y.data());
  stream.synchronize();
  launch(twice, stream, {x.data()}, y.data());  // accepted; the fault is reported later
  const Error error = error_of([&] { stream.synchronize(); });
  EXPECT_EQ(error.code(), RT_ERROR_DEVICE);
  EXPECT_EQ(error.scope(), RT_SCOPE_STREAM);
  EXPECT_THAT(error.what(), HasSubstr("scale: injected fault in launch 3"));
  EXPECT_THAT(download(stream, y), Each(2.0f)) << "the stream works again after the report";
}

TEST_F(SimulatedTest, SkipsWorkAfterAnErrorButCompletesEvents) {
  const auto device = open({{"fail_after", "0"}});
  Stream stream = device->create_stream();
  const Memory x = device->allocate(kBytes);
  stream.fill(x.data(), 0, kBytes);
  Kernel fill = make_fill(*device, 1.0);
  Event done = device->create_event();
  launch(fill, stream, {}, x.data());
  stream.fill(x.data(), 1, kBytes);
  done.record(stream);
  EXPECT_EQ(error_of([&] { done.synchronize(); }).code(), RT_ERROR_DEVICE);
  EXPECT_EQ(error_of([&] { stream.synchronize(); }).code(), RT_ERROR_DEVICE);
  EXPECT_THAT(download(stream, x), Each(0.0f));
  done.record(stream);
  done.synchronize();  // what was reported is over
}

TEST_F(SimulatedTest, AFailedLaunchNamesTheLayer) {
  const auto device = open({{"fail_after", "0"}});
  Operation op;
  op.name = RT_OP_FILL;
  op.outputs = {make_tensor_desc(RT_FLOAT32, {kCount})};
  op.attributes = {{RT_ATTR_VALUE, 1.0}};
  op.label = "layer 'first'";
  Kernel fill = device->create_kernel(op);
  const Memory x = device->allocate(kBytes);
  Stream stream = device->create_stream();
  launch(fill, stream, {}, x.data());
  EXPECT_THAT(error_of([&] { stream.synchronize(); }).what(),
              AllOf(HasSubstr("(launched last: layer 'first')"),
                    HasSubstr("layer 'first': simulated:0: fill: injected fault")));
}

TEST_F(SimulatedTest, RefusesOperationsOnDemand) {
  const auto device = open({{"refuse", "conv2d,scale"}});
  Operation op;
  op.name = RT_OP_SCALE;
  op.inputs = {make_tensor_desc(RT_FLOAT32, {kCount})};
  op.outputs = op.inputs;
  const Support support = device->query(op);
  EXPECT_EQ(support.level, RT_SUPPORT_REFUSED);
  EXPECT_THAT(support.reason, HasSubstr("'refuse'"));
  EXPECT_EQ(error_of([&] { device->create_kernel(op); }).code(), RT_ERROR_UNSUPPORTED);
}

TEST_F(SimulatedTest, RefusesToChooseALayoutThatTheContractFixes) {
  const auto device = open();
  Operation op;
  op.name = RT_OP_ADD;
  op.inputs = {make_tensor_desc(RT_FLOAT32, {2, 3}, RT_LAYOUT_ANY),
               make_tensor_desc(RT_FLOAT32, {3})};
  op.outputs = {make_tensor_desc(RT_FLOAT32, {2, 3}, RT_LAYOUT_ANY)};
  EXPECT_EQ(device->query(op).level, RT_SUPPORT_NATIVE);
  op.inputs[1].layout = RT_LAYOUT_ANY;
  EXPECT_THAT(error_of([&] { device->query(op); }).what(),
              HasSubstr("add: input 1 has RT_LAYOUT_ANY"));
  op.name = RT_OP_SUBTRACT;
  op.inputs[1].layout = RT_LAYOUT_CANONICAL;
  EXPECT_THAT(error_of([&] { device->query(op); }).what(),
              HasSubstr("subtract: input 0 has RT_LAYOUT_ANY"));
}

TEST_F(SimulatedTest, RefusesBadOptions) {
  EXPECT_THAT(error_of([&] {
                open({{"poison", "maybe"}});
              }).what(),
              HasSubstr("option poison is 'maybe', expected true or false"));
  EXPECT_THAT(error_of([&] { open({{"memory_mb", "0"}}); }).what(), HasSubstr("MiB >= 1"));
  EXPECT_THAT(error_of([&] { open({}, 7); }).what(), HasSubstr("simulated:0, simulated:1"));
}

TEST_F(SimulatedTest, ADrainWaitsForTheWorkAndDropsItsError) {
  const auto device = open({{"fail_after", "0"}});
  Kernel fill = make_fill(*device, 1.0);
  const Memory x = device->allocate(kBytes);
  Stream stream = device->create_stream();
  Event done = device->create_event();
  launch(fill, stream, {}, x.data());
  done.record(stream);
  { const plugins::host::Drain drain(stream); }
  EXPECT_EQ(error_of([&] { done.query(); }).code(), RT_ERROR_DEVICE) << "it has completed";
  stream.synchronize();
}

TEST_F(SimulatedTest, DestroyingAStreamWaitsForItsWork) {
  const auto device = open({{"max_delay_us", "20"}});
  const Memory x = device->allocate(kBytes);
  std::vector<float> values(kCount, 1.0f);
  {
    Stream stream = device->create_stream();
    for (int i = 0; i < 3000; ++i) stream.fill(x.data(), 0, 8);  // the queue has to grow
    Kernel fill = make_fill(*device, 2.5);
    launch(fill, stream, {}, x.data());
    stream.copy(values.data(), x.data(), kBytes);
  }
  EXPECT_THAT(values, Each(2.5f));
}

}  // namespace
