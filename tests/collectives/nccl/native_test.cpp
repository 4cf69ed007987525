// How the plugin nccl finds the device and the stream of CUDA behind the host's objects: through
// rt/native.h, or with older plugins and hosts through rt/gpu.h. With the simulated NCCL and CUDA
// runtime of tests/doubles, which end the process if a stream is not one of theirs.
#include "rt/native.h"

#include <gmock/gmock.h>

#include <cstring>

#include "rt/gpu.h"
#include "tests/collectives/nccl/on_stream.h"

namespace collectives::nccl::testing {
namespace {

using ::testing::HasSubstr;

TEST(Native, TheDevicePluginTellsItsHandles) {
  const auto plugin = load(CUDA_PLUGIN);
  ASSERT_NE(plugin->native_api(), nullptr);
  const rt_native_api& api = *plugin->native_api();
  for (const int32_t index : {0, 1}) {
    const auto device = host::Device::open(plugin, index);
    const host::Stream stream(device);
    rt_event* event = nullptr;
    ASSERT_EQ(plugin->device_api()->event_create(device->get(), &event, nullptr), RT_OK);
    rt_native_handle handle{};
    handle.size = sizeof(handle);
    ASSERT_EQ(api.device(device->get(), &handle, nullptr), RT_OK);
    EXPECT_EQ(handle.index, index);
    EXPECT_STREQ(handle.kind, RT_NATIVE_CUDA);
    EXPECT_EQ(handle.handle, nullptr);
    ASSERT_EQ(api.stream(stream.get(), &handle, nullptr), RT_OK);
    EXPECT_EQ(handle.index, index);
    // The prefix that communicators of minor version 0 read stays as it was.
    EXPECT_EQ(handle.handle, reinterpret_cast<const rt_gpu_stream*>(stream.get())->native);
    EXPECT_NE(handle.handle, nullptr);
    EXPECT_EQ(reinterpret_cast<const rt_gpu_device*>(device->get())->index, index);
    ASSERT_EQ(api.event(event, &handle, nullptr), RT_OK);
    EXPECT_EQ(handle.index, index);
    EXPECT_NE(handle.handle, nullptr);
    plugin->device_api()->event_destroy(event);
  }
}

TEST(Native, AnOlderCallerGetsTheFieldsThatItKnows) {
  const auto plugin = load(CUDA_PLUGIN);
  const auto device = host::Device::open(plugin, 1);
  rt_native_handle handle{};
  handle.size = RT_NATIVE_HANDLE_SIZE_V1 - 8;
  rt_error error = host::make_error();
  EXPECT_EQ(plugin->native_api()->device(device->get(), &handle, &error),
            RT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("rt_native_handle has 48 bytes; expected at least 56"));
}

// The options of a communicator of one rank, as a host makes them.
struct Options {
  explicit Options(const std::shared_ptr<host::Device>& device) {
    c.size = sizeof(c);
    c.world_size = 1;
    c.prefix = "native";
    c.interface = "";
    c.device = device->get();
    c.timeout_ns = std::chrono::nanoseconds(kLong).count();
  }
  rt_comm_options c{};
};

// Which functions of a table were called. A C function has no other way to tell.
std::atomic<int> devices_asked, streams_asked;
const rt_native_api* real = nullptr;
const char* kind = RT_NATIVE_CUDA;
int32_t stream_index = 1;

rt_status device_handle(rt_device* device, rt_native_handle* handle, rt_error* error) {
  ++devices_asked;
  const rt_status status = real->device(device, handle, error);
  std::snprintf(handle->kind, sizeof(handle->kind), "%s", kind);
  return status;
}
rt_status stream_handle(rt_stream* stream, rt_native_handle* handle, rt_error* error) {
  ++streams_asked;
  const rt_status status = real->stream(stream, handle, error);
  handle->index = stream_index;
  return status;
}

class NativeTable : public ::testing::Test {
 protected:
  void SetUp() override {
    devices_asked = streams_asked = 0;
    kind = RT_NATIVE_CUDA;
    stream_index = 1;
    real = cuda_->native_api();
    table_ = *real;
    table_.device = device_handle;
    table_.stream = stream_handle;
  }
  // Sums over one rank on a stream, and expects the numbers that were sent.
  rt_status sum(const rt_comm_options& options, rt_error& error) {
    const rt_communicator_api& api = *nccl_->communicator_api();
    rt_communicator* communicator = nullptr;
    rt_status status = api.create(nccl_->self(), &options, &communicator, &error);
    if (status != RT_OK) return status;
    const float numbers[] = {3, 4};
    float received[2] = {};
    host::Stream stream(device_);
    host::Memory send = device_->allocate(8), receive = device_->allocate(8);
    stream.copy(send.data(), numbers, 8);
    rt_collective call =
        host::make_collective(RT_ALL_REDUCE, RT_FLOAT32, send.data(), receive.data(), 2, RT_SUM);
    call.memory_kind = RT_MEMORY_DEVICE;
    call.stream = stream.get();
    rt_work* work = nullptr;
    status = api.enqueue(communicator, &call, &work, &error);
    if (status == RT_OK) {
      EXPECT_EQ(api.work_wait(work, options.timeout_ns, &error), RT_OK);
      api.work_destroy(work);
      stream.copy(received, receive.data(), 8);
      stream.synchronize();
      EXPECT_EQ(received[0], 3);
      EXPECT_EQ(received[1], 4);
    }
    api.destroy(communicator);
    return status;
  }

  Store store_;
  std::shared_ptr<host::Plugin> cuda_ = load(CUDA_PLUGIN),
                                nccl_ = load(NCCL_PLUGIN, store_.services());
  std::shared_ptr<host::Device> device_ = host::Device::open(cuda_, 1);
  Options options_{device_};
  rt_native_api table_{};
  rt_error error_ = host::make_error();
};

TEST_F(NativeTable, IsAskedWhereTheHostPassesIt) {
  options_.c.native = &table_;
  EXPECT_EQ(sum(options_.c, error_), RT_OK) << error_.message;
  EXPECT_EQ(devices_asked, 1);
  EXPECT_EQ(streams_asked, 1);
}

TEST_F(NativeTable, WithoutItThePrefixIsRead) {
  EXPECT_EQ(sum(options_.c, error_), RT_OK) << error_.message;
  EXPECT_EQ(devices_asked + streams_asked, 0);
}

// A host that was compiled before the field existed: what lies behind its struct is not read.
TEST_F(NativeTable, AHostOfTheFirstReleaseHasNoField) {
  options_.c.native = &table_;
  options_.c.size = RT_COMM_OPTIONS_SIZE_V1;
  EXPECT_EQ(sum(options_.c, error_), RT_OK) << error_.message;
  EXPECT_EQ(devices_asked + streams_asked, 0);
}

TEST_F(NativeTable, ADeviceOfAnotherLibraryIsRefused) {
  options_.c.native = &table_;
  kind = RT_NATIVE_HIP;
  EXPECT_EQ(sum(options_.c, error_), RT_ERROR_UNSUPPORTED);
  EXPECT_THAT(error_.message, HasSubstr("handles of kind \"hip\"; expected \"cuda\""));
}

TEST_F(NativeTable, AStreamOfAnotherDeviceIsRefused) {
  options_.c.native = &table_;
  stream_index = 0;
  EXPECT_EQ(sum(options_.c, error_), RT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("of device 0; expected the communicator's device, 1"));
}

// A communicator that was compiled before the field existed refuses options that use it, so the
// host leaves it out.
TEST_F(NativeTable, ACommunicatorOfTheFirstReleaseGetsOptionsThatItKnows) {
  const auto fake = host::Plugin::load(FIRST_RELEASE_PLUGIN, store_.services());
  ASSERT_EQ(fake->minor(), 0u);
  const auto communicator = host::Communicator::create(
      fake, {.world_size = 1, .prefix = "first", .device = device_, .timeout = kLong});
  EXPECT_EQ(communicator->rank(), 0);
}

// The host passes the table of the device's plugin by itself: only through it can the plugin know
// which device a stream belongs to.
TEST_F(NativeTable, TheHostPassesIt) {
  const Rank rank = join(nccl_, 0, 1);
  OnStream own(rank, RT_ALL_REDUCE);
  rank.communicator->enqueue(own.call.collective).wait(kLong);
  EXPECT_EQ(own.received(), (std::vector<float>{1, 0}));
  host::Stream other(device_);
  own.call.collective.stream = other.get();
  const host::Error error = error_of([&] { rank.communicator->enqueue(own.call.collective); });
  EXPECT_EQ(error.code(), RT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(error.what(), HasSubstr("of device 1; expected the communicator's device, 0"));
}

}  // namespace
}  // namespace collectives::nccl::testing
