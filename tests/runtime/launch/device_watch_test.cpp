// Checks when a silent device is noted, and when it ends the run.
#include "runtime/launch/device_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

namespace runtime::launch {
namespace {

using namespace std::chrono_literals;
using plugins::host::Device;
using plugins::host::Plugin;
using testing::HasSubstr;

// What the watch of a device that is busy for a second says, and how often.
struct Watched {
  std::atomic<int> notes = 0, ends = 0;
  std::string note, end;

  void run(std::chrono::nanoseconds note_after, std::chrono::nanoseconds end_after) {
    const auto device = Device::open(Plugin::load(SIMULATED_PLUGIN, {}), 0,
                                     {0, {{"slow_launch", "1"}, {"slow_ms", "1000"}}});
    DeviceWatch watch({10ms, note_after, end_after,
                       [this](const std::string& text) {
                         note = text;
                         ++notes;
                       },
                       [this](const std::string& text) {
                         end = text;
                         ++ends;
                       }});
    watch.add(*device);
    EXPECT_FALSE(watch.silence());
    plugins::host::Operation op;
    op.name = "fill";
    op.outputs = {plugins::host::make_tensor_desc(RT_FLOAT32, {4})};
    op.attributes = {{"value", 1.0}};
    op.label = "layer 'first'";
    plugins::host::Kernel kernel = device->create_kernel(op);
    const plugins::host::Memory memory = device->allocate(16);
    plugins::host::Stream stream = device->create_stream();
    void* output = memory.data();
    rt_launch launch{};
    launch.size = sizeof(launch);
    launch.outputs = &output;
    launch.output_count = 1;
    kernel.launch(stream, launch);
    stream.synchronize();
  }
};

TEST(DeviceWatch, NotesOnceWhatWasLaunchedLast) {
  Watched watched;
  watched.run(100ms, 0ns);
  EXPECT_EQ(watched.notes, 1);
  EXPECT_EQ(watched.ends, 0);
  EXPECT_THAT(watched.note, HasSubstr("the device has not answered for 0 s: simulated:0 stream 0, "
                                      "launched last: layer 'first'"));
}

TEST(DeviceWatch, EndsWhatTakesLongerThanTheTimeout) {
  Watched watched;
  watched.run(1h, 100ms);
  EXPECT_EQ(watched.notes, 0);
  EXPECT_GE(watched.ends, 1);
  EXPECT_THAT(watched.end, HasSubstr("longer than device.timeout_s"));
}

TEST(DeviceWatch, SaysNothingOfAWaitThatIsShort) {
  Watched watched;
  watched.run(1h, 1h);
  EXPECT_EQ(watched.notes + watched.ends, 0);
}

}  // namespace
}  // namespace runtime::launch
