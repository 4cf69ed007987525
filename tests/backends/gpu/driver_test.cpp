// Faults of the driver and of indices, with the test double of the CUDA runtime.
#include <gmock/gmock.h>

#include <array>
#include <cstdlib>

#include "plugins/host/error.h"
#include "plugins/host/recording.h"

namespace {

namespace host = plugins::host;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Driver : public ::testing::Test {
 protected:
  ~Driver() override { ::unsetenv("CUDART_DOUBLE"); }
  static std::string words_of_open(int32_t index) {
    try {
      host::Device::open(host::Plugin::load(CUDA_DOUBLE, {}), index);
    } catch (const host::Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  }
  // Expects one unusable device whose reason contains the driver's message.
  static void expect_unusable(const char* state, const std::string& words) {
    ::setenv("CUDART_DOUBLE", state, 1);
    const auto devices = host::list_devices(*host::Plugin::load(CUDA_DOUBLE, {}));
    ASSERT_EQ(devices.size(), 1u);
    EXPECT_FALSE(devices[0].usable());
    EXPECT_THAT(devices[0].properties.unusable_reason, HasSubstr(words));
    EXPECT_THAT(words_of_open(0), HasSubstr(words));
  }
};

TEST_F(Driver, MissingOrTooOld) {
  expect_unusable("old_driver", "CUDA driver version is insufficient for CUDA runtime version");
}
TEST_F(Driver, WithoutADevice) {
  expect_unusable("no_device", "no CUDA-capable device is detected");
}

TEST_F(Driver, DevicesAreListed) {
  const auto devices = host::list_devices(*host::Plugin::load(CUDA_DOUBLE, {}));
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_TRUE(devices[1].usable());
  EXPECT_EQ(devices[1].id(), "cuda:1");
}

TEST_F(Driver, AnIndexOutOfRangeNamesThoseThereAre) {
  EXPECT_THAT(words_of_open(7), AllOf(HasSubstr("7"), HasSubstr("cuda:0"), HasSubstr("cuda:1")));
}

TEST_F(Driver, AFaultThatIsReportedLateBlamesNoCall) {
  const auto device = host::Device::open(host::Plugin::load(CUDA_DOUBLE, {}), 0);
  host::Stream stream = device->create_stream();
  ::setenv("CUDART_DOUBLE", "illegal_address", 1);
  try {
    stream.synchronize();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const host::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a kernel that was queued before may be the cause"));
  }
  ::unsetenv("CUDART_DOUBLE");
}

TEST_F(Driver, OutOfMemoryNamesTheSizes) {
  const auto device = host::Device::open(host::Plugin::load(CUDA_DOUBLE, {}), 1);
  try {
    device->allocate(uint64_t{1} << 40);
    FAIL() << "nothing was thrown";
  } catch (const host::Error& error) {
    EXPECT_EQ(error.code(), RT_ERROR_OUT_OF_MEMORY);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("cuda:1"), HasSubstr("1099511627776"), HasSubstr("1073741824")));
  }
}

// Recorded work runs at each replay, on the data that its addresses hold at that time, and not
// before.
TEST_F(Driver, RecordedWorkRunsWhenItIsReplayed) {
  const auto device = host::Device::open(host::Plugin::load(CUDA_DOUBLE, {}), 0);
  host::Stream stream = device->create_stream();
  std::array<char, 2> bytes = {1, 2};
  host::Recording recording(stream, [&] { stream.copy(&bytes[1], &bytes[0], 1); });
  EXPECT_EQ(bytes[1], 2);
  recording.replay(stream);
  EXPECT_EQ(bytes[1], 1);
  bytes[0] = 7;
  recording.replay(stream);
  EXPECT_EQ(bytes[1], 7);
}

TEST_F(Driver, AStreamWorksAfterARecordingThatFailed) {
  const auto device = host::Device::open(host::Plugin::load(CUDA_DOUBLE, {}), 0);
  host::Stream stream = device->create_stream();
  EXPECT_THROW(host::Recording(stream, [&] { stream.synchronize(); }), host::Error);
  char from = 5, to = 0;
  stream.copy(&to, &from, 1);
  stream.synchronize();
  EXPECT_EQ(to, 5);
}

}  // namespace
