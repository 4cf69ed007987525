// The queues, events and addresses of the example plugin for OpenCL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plugins/host/error.h"
#include "rt/operations.h"
#include "tests/plugins/opencl/support.h"

namespace {

using plugins::host::Device;
using plugins::host::Error;
using plugins::host::Event;
using plugins::host::Kernel;
using plugins::host::make_tensor_desc;
using plugins::host::Memory;
using plugins::host::Operation;
using plugins::host::Stream;
using testing::Each;
using testing::HasSubstr;

constexpr int64_t kCount = 1 << 16;
constexpr uint64_t kBytes = kCount * sizeof(float);

class OpenclDevice : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    device_ = opencl_test::open(&reason);
    if (device_ == nullptr) GTEST_SKIP() << reason;
    stream_.emplace(device_->create_stream());
  }
  std::vector<float> download(const void* address) {
    std::vector<float> values(kCount);
    stream_->copy(values.data(), address, kBytes);
    stream_->synchronize();
    return values;
  }
  // y = 2 x
  void launch_double(const void* x, void* y) {
    Operation op;
    op.name = RT_OP_SCALE;
    op.inputs = op.outputs = {make_tensor_desc(RT_FLOAT32, {kCount})};
    op.attributes = {{RT_ATTR_ALPHA, 2.0}};
    Kernel kernel = device_->create_kernel(op);
    kernel.launch(*stream_, {sizeof(rt_launch), 1, &x, &y, 1, 0, nullptr, nullptr});
  }
  std::shared_ptr<Device> device_;
  std::optional<Stream> stream_;
};

template <typename Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(OpenclDevice, IsQueuedAndRefusesToBeReadByTheHost) {
  EXPECT_FALSE(device_->is_inline());
  EXPECT_FALSE(device_->host_memory());
}

// The host keeps many buffers in one allocation and adds offsets to its address.
TEST_F(OpenclDevice, FindsBuffersWithinAnAllocation) {
  const Memory arena = device_->allocate(4 * kBytes);
  auto* const base = static_cast<char*>(arena.data());
  const std::vector<float> ones(kCount, 1.0f);
  stream_->fill(base, 0, 4 * kBytes);
  stream_->copy(base + kBytes, ones.data(), kBytes);
  launch_double(base + kBytes, base + 2 * kBytes);
  stream_->copy(base + 3 * kBytes, base + 2 * kBytes, kBytes);
  EXPECT_THAT(download(base), Each(0.0f));
  EXPECT_THAT(download(base + kBytes), Each(1.0f));
  EXPECT_THAT(download(base + 2 * kBytes), Each(2.0f));
  EXPECT_THAT(download(base + 3 * kBytes), Each(2.0f));
}

TEST_F(OpenclDevice, APageableSourceMayChangeAfterTheCopyIsQueued) {
  const Memory x = device_->allocate(kBytes), y = device_->allocate(kBytes);
  std::vector<float> source(kCount);
  for (int round = 0; round < 20; ++round) {
    std::fill(source.begin(), source.end(), static_cast<float>(round));
    stream_->copy(x.data(), source.data(), kBytes);
    launch_double(x.data(), y.data());
    std::fill(source.begin(), source.end(), -1.0f);
  }
  EXPECT_THAT(download(y.data()), Each(38.0f));
}

TEST_F(OpenclDevice, CopiesBetweenPinnedAndPageableMemory) {
  const Memory pinned = device_->allocate(kBytes, RT_MEMORY_PINNED_HOST);
  const std::vector<float> threes(kCount, 3.0f);
  stream_->copy(pinned.data(), threes.data(), kBytes);
  stream_->synchronize();
  const auto* const values = static_cast<const float*>(pinned.data());
  EXPECT_TRUE(std::all_of(values, values + kCount, [](float v) { return v == 3.0f; }));
  const Memory x = device_->allocate(kBytes);
  stream_->copy(x.data(), pinned.data(), kBytes);
  EXPECT_THAT(download(x.data()), Each(3.0f));
}

TEST_F(OpenclDevice, EventsOrderStreamsAndMayBeRecordedAgain) {
  const Memory x = device_->allocate(kBytes), y = device_->allocate(kBytes);
  Stream other = device_->create_stream();
  Event event = device_->create_event();
  EXPECT_TRUE(event.query()) << "an event that was never recorded counts as complete";
  for (int value = 1; value < 4; ++value) {
    const std::vector<float> source(kCount, static_cast<float>(value));
    other.copy(x.data(), source.data(), kBytes);
    event.record(other);
    event.wait(*stream_);
    launch_double(x.data(), y.data());
    EXPECT_THAT(download(y.data()), Each(2.0f * static_cast<float>(value)));
  }
  EXPECT_TRUE(event.query());
}

TEST_F(OpenclDevice, MeasuresTheTimeBetweenRecords) {
  const Memory x = device_->allocate(kBytes), y = device_->allocate(kBytes);
  Event begin = device_->create_event(), end = device_->create_event();
  EXPECT_THAT(message_of([&] { Event::elapsed(begin, end); }), HasSubstr("not recorded"));
  stream_->fill(x.data(), 0, kBytes);
  begin.record(*stream_);
  launch_double(x.data(), y.data());
  end.record(*stream_);
  end.synchronize();
  EXPECT_GT(Event::elapsed(begin, end).count(), 0);
  EXPECT_LT(Event::elapsed(end, begin).count(), 0);
}

TEST_F(OpenclDevice, NamesTheOperandThatIsNotItsMemory) {
  const Memory x = device_->allocate(kBytes);
  std::vector<float> host(kCount);
  EXPECT_THAT(message_of([&] { launch_double(x.data(), host.data()); }),
              HasSubstr("scale: 262144 bytes at"));
  auto* const behind = static_cast<char*>(x.data()) + kBytes / 2;
  EXPECT_THAT(message_of([&] { launch_double(x.data(), behind); }),
              HasSubstr("operand 0, of which 131072 are memory of this device"));
}

TEST_F(OpenclDevice, CountsItsMemoryAndRefusesMoreThanThereIs) {
  const rt_memory_info before = device_->memory_info();
  {
    const Memory x = device_->allocate(kBytes);
    EXPECT_EQ(device_->memory_info().allocated_bytes, before.allocated_bytes + kBytes);
    EXPECT_EQ(device_->memory_info().free_bytes, before.free_bytes - kBytes);
  }
  EXPECT_EQ(device_->memory_info().allocated_bytes, before.allocated_bytes);
  const uint64_t largest = device_->properties().largest_buffer;
  EXPECT_GT(largest, 0u);
  EXPECT_THAT(message_of([&] { device_->allocate(largest + 1); }),
              HasSubstr("at most " + std::to_string(largest)));
  void* address = nullptr;
  rt_error error = plugins::host::make_error();
  EXPECT_EQ(device_->plugin().device_api()->allocate(device_->get(), before.total_bytes + 1,
                                                     RT_MEMORY_DEVICE, &address, &error),
            RT_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(error.message, HasSubstr("bytes asked for"));
}

TEST_F(OpenclDevice, RefusesWithTheOperandAndTheRemedy) {
  Operation op;
  op.name = RT_OP_ADD;
  op.inputs = {make_tensor_desc(RT_FLOAT16, {4}), make_tensor_desc(RT_FLOAT16, {4})};
  op.outputs = {make_tensor_desc(RT_FLOAT16, {4})};
  const plugins::host::Support support = device_->query(op);
  EXPECT_EQ(support.level, RT_SUPPORT_REFUSED);
  EXPECT_EQ(support.reason_operand, 0);
  EXPECT_THAT(support.reason, HasSubstr("operand 0 (x) is float16 [4]; this device computes in"));
}

}  // namespace
