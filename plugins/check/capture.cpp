// Checks of recorded work (rt/capture.h).
#include <fmt/format.h>

#include "plugins/check/busy.h"
#include "plugins/check/check.h"
#include "plugins/host/error.h"
#include "plugins/host/recording.h"

namespace plugins::check {

namespace {

constexpr size_t kBytesOfCapture = 4096;

void require_capture(Context& context) {
  context.device_api();
  if (context.plugin()->capture_api() == nullptr)
    throw Skip("the plugin does not record work (rt.capture)");
}

std::string replays(Context& context) {
  require_capture(context);
  const auto device = context.device();
  const host::Memory source = device->allocate(kBytesOfCapture),
                     copy = device->allocate(kBytesOfCapture);
  host::Stream stream = device->create_stream();
  stream.fill(source.data(), 1, kBytesOfCapture);
  stream.fill(copy.data(), 2, kBytesOfCapture);
  stream.synchronize();
  host::Recording recording(stream,
                            [&] { stream.copy(copy.data(), source.data(), kBytesOfCapture); });
  require(first_byte(stream, copy) == 2, "recorded work ran while it was recorded");
  for (const int value : {3, 4, 5}) {
    stream.fill(source.data(), value, kBytesOfCapture);
    recording.replay(stream);
    const int found = first_byte(stream, copy);
    require(found == value,
            fmt::format("a replay of a copy left {}, expected {}: the data of that moment at the "
                        "recorded addresses",
                        found, value));
  }
  return "";
}

std::string records_other_streams(Context& context) {
  require_capture(context);
  const auto device = context.device();
  host::Event fork = device->create_event(), join = device->create_event();
  const host::Memory memory = device->allocate(kBytesOfCapture);
  host::Stream first = device->create_stream(), second = device->create_stream();
  first.fill(memory.data(), 0, kBytesOfCapture);
  first.synchronize();
  host::Recording recording(first, [&] {
    try {
      fork.record(first);
    } catch (const host::Error& refusal) {
      throw Skip(std::string("the plugin records one stream at a time: ") + refusal.what());
    }
    fork.wait(second);
    second.fill(memory.data(), 7, kBytesOfCapture);
    join.record(second);
    join.wait(first);
  });
  require(first_byte(first, memory) == 0,
          "work of a second stream, which waits for an event of the captured one, ran while it was "
          "recorded");
  recording.replay(first);
  require(first_byte(first, memory) == 7,
          "a replay left out the work of a second stream that was part of the capture");
  return "";
}

std::string works_after_a_discarded_capture(Context& context) {
  require_capture(context);
  const auto device = context.device();
  const host::Memory memory = device->allocate(kBytesOfCapture);
  host::Stream stream = device->create_stream();
  stream.fill(memory.data(), 1, kBytesOfCapture);
  stream.synchronize();
  try {
    const host::Recording recording(stream, [&] {
      stream.fill(memory.data(), 2, kBytesOfCapture);
      throw Skip("given up");
    });
  } catch (const Skip&) {  // the capture has ended without a recording
  }
  require(first_byte(stream, memory) == 1, "a capture that was given up ran its work");
  stream.fill(memory.data(), 3, kBytesOfCapture);
  require(first_byte(stream, memory) == 3, "the stream does not work after a capture was given up");
  return "";
}

}  // namespace

void add_capture_checks(std::vector<Check>& checks) {
  checks.push_back({"capture", "records work instead of running it, and replays it", replays});
  checks.push_back(
      {"capture", "takes in the streams that wait for the captured one", records_other_streams});
  checks.push_back({"capture", "leaves a stream that works when it is given up",
                    works_after_a_discarded_capture});
}

}  // namespace plugins::check
