// The validation finds work that nothing orders, and wrong uses of streams, events and recordings.
#include "plugins/validate/order.h"

#include <thread>

#include "plugins/host/recording.h"
#include "tests/plugins/validate/validated.h"

namespace plugins::host::testing {
namespace {

using namespace std::chrono_literals;

class ValidatedOrder : public ValidatedTest {};

TEST_F(ValidatedOrder, TwoStreamsWithoutAnEvent) {
  const auto device = open();
  Stream first = device->create_stream(), second = device->create_stream();
  const Memory memory = device->allocate(kBytes);
  first.fill(memory.data(), 1, kBytes);
  expect_finding(kRuntimeAtFault, "no event and no synchronisation orders",
                 [&] { second.fill(memory.data(), 2, kBytes); });
  first.synchronize();
}

TEST_F(ValidatedOrder, ReadsNeedNoOrder) {
  const auto device = open();
  Stream first = device->create_stream(), second = device->create_stream();
  const Memory from = device->allocate(kBytes), to = device->allocate(2 * kBytes);
  first.fill(from.data(), 1, kBytes);
  first.synchronize();
  first.copy(to.data(), from.data(), kBytes);
  second.copy(static_cast<char*>(to.data()) + kBytes, from.data(), kBytes);
  first.synchronize();
  second.synchronize();
  expect_no_finding();
}

TEST_F(ValidatedOrder, EventsAndTheHostOrder) {
  const auto device = open();
  Stream first = device->create_stream(), second = device->create_stream();
  Event event = device->create_event();
  const Memory memory = device->allocate(kBytes);
  first.fill(memory.data(), 1, kBytes);
  event.record(first);
  event.wait(second);
  second.fill(memory.data(), 2, kBytes);
  second.synchronize();
  first.fill(memory.data(), 3, kBytes);
  event.record(first);
  event.synchronize();
  second.fill(memory.data(), 4, kBytes);
  second.synchronize();
  expect_no_finding();
}

TEST_F(ValidatedOrder, AnEventOfBeforeTheWorkDoesNotOrder) {
  const auto device = open();
  Stream first = device->create_stream(), second = device->create_stream();
  Event event = device->create_event();
  const Memory memory = device->allocate(kBytes);
  event.record(first);
  first.fill(memory.data(), 1, kBytes);
  event.wait(second);
  expect_finding(kRuntimeAtFault, "no event and no synchronisation orders",
                 [&] { second.fill(memory.data(), 2, kBytes); });
  first.synchronize();
}

TEST_F(ValidatedOrder, AnEventOfAnotherDevice) {
  const auto device = open(), other = open({}, 1);
  Stream stream = device->create_stream();
  Event event = other->create_event();
  expect_finding(kRuntimeAtFault, "the event was made from simulated:1",
                 [&] { event.record(stream); });
}

TEST_F(ValidatedOrder, AStreamThatWasDestroyed) {
  const auto device = open();
  rt_stream* gone = nullptr;
  {
    const Stream stream = device->create_stream();
    gone = stream.get();
  }
  expect_finding(kRuntimeAtFault, "the stream was destroyed before", [&] {
    rt_error error = {};
    error.size = sizeof(error);
    EXPECT_EQ(device->plugin().device_api()->stream_synchronize(gone, &error),
              RT_ERROR_INVALID_ARGUMENT);
  });
}

TEST_F(ValidatedOrder, ACopyThatOverlaps) {
  const auto device = open();
  Stream stream = device->create_stream();
  const Memory memory = device->allocate(kBytes);
  expect_finding(kRuntimeAtFault, "overlap", [&] {
    stream.copy(static_cast<char*>(memory.data()) + 64, memory.data(), kBytes / 2);
  });
}

TEST_F(ValidatedOrder, AFillWithMoreThanAByte) {
  const auto device = open();
  Stream stream = device->create_stream();
  const Memory memory = device->allocate(kBytes);
  expect_finding(kRuntimeAtFault, "the value is 256",
                 [&] { stream.fill(memory.data(), 256, kBytes); });
}

TEST_F(ValidatedOrder, TwoThreadsOnOneStream) {
  const auto device = open({{"slow_launch", "1"}, {"slow_ms", "400"}});
  Stream stream = device->create_stream();
  const Memory x = device->allocate(kBytes), y = device->allocate(kBytes);
  Kernel kernel = device->create_kernel(scale());
  stream.fill(x.data(), 0, kBytes);
  expect_finding(kRuntimeAtFault, "another thread is in its", [&] {
    std::thread other([&] {
      try {
        launch(kernel, stream, x.data(), y.data());
      } catch (const Error&) {  // this thread may be the one that comes second
      }
    });
    while (validation_->findings().empty()) {
      try {
        stream.synchronize();
      } catch (const Error&) {
      }
    }
    other.join();
  });
}

TEST_F(ValidatedOrder, ADeviceWhoseEventsNeverComplete) {
  const auto device = open_mutant("is_never_complete");
  Stream stream = device->create_stream();
  Event event = device->create_event();
  event.record(stream);
  event.synchronize();
  expect_finding(kPluginAtFault, "RT_NOT_READY for an event that has completed",
                 [&] { event.query(); });
}

TEST_F(ValidatedOrder, ADeviceThatMeasuresNoTime) {
  const auto device = open_mutant("measures_no_time");
  Stream stream = device->create_stream();
  Event begin = device->create_event(), end = device->create_event();
  begin.record(stream);
  begin.synchronize();
  std::this_thread::sleep_for(100ms);
  end.record(stream);
  end.synchronize();
  expect_finding(kPluginAtFault, "answers 0 ns, but at least", [&] { Event::elapsed(begin, end); });
}

class ValidatedCapture : public ValidatedTest {
 protected:
  rt_error error_ = [] {
    rt_error error = {};
    error.size = sizeof(error);
    return error;
  }();
};

TEST_F(ValidatedCapture, AnAllocationWhileWorkIsRecorded) {
  const auto device = open();
  Stream stream = device->create_stream();
  const rt_capture_api& api = *device->plugin().capture_api();
  ASSERT_EQ(api.begin(stream.get(), &error_), RT_OK);
  expect_finding(kRuntimeAtFault, "may not wait, query or allocate",
                 [&] { device->allocate(kBytes); });
  api.end(stream.get(), nullptr, &error_);
}

TEST_F(ValidatedCapture, AnEndWithoutABegin) {
  const auto device = open();
  Stream stream = device->create_stream();
  rt_recording* recording = nullptr;
  expect_finding(kRuntimeAtFault, "nothing is recorded on the stream",
                 [&] { device->plugin().capture_api()->end(stream.get(), &recording, &error_); });
}

TEST_F(ValidatedCapture, AReplayUsesMemoryThatWasFreed) {
  const auto device = open();
  const rt_capture_api& api = *device->plugin().capture_api();
  Stream stream = device->create_stream();
  rt_recording* recording = nullptr;
  {
    const Memory memory = device->allocate(kBytes);
    ASSERT_EQ(api.begin(stream.get(), &error_), RT_OK);
    stream.fill(memory.data(), 1, kBytes);
    ASSERT_EQ(api.end(stream.get(), &recording, &error_), RT_OK);
    ASSERT_EQ(api.replay(recording, stream.get(), &error_), RT_OK);
    stream.synchronize();
  }
  expect_no_finding();
  expect_finding(kRuntimeAtFault,
                 "replay of: ", [&] { api.replay(recording, stream.get(), &error_); });
  api.destroy(recording);
}

// A device that answers a time in which the host has not waited.
TEST_F(ValidatedOrder, ADeviceThatMeasuresTooMuchTime) {
  const auto good = Plugin::load(REFERENCE_PLUGIN, {});
  Tables tables;
  tables.device = *good->device_api();
  tables.device->event_elapsed = [](rt_event*, rt_event*, int64_t* time, rt_error*) -> rt_status {
    *time = 3'600'000'000'000;
    return RT_OK;
  };
  FaultyDevice faulty(*validation_, *good, tables);
  rt_stream* stream = nullptr;
  rt_event *begin = nullptr, *end = nullptr;
  ASSERT_EQ(faulty.api.stream_create(faulty.device, &stream, &faulty.error), RT_OK);
  for (rt_event** event : {&begin, &end}) {
    ASSERT_EQ(faulty.api.event_create(faulty.device, event, &faulty.error), RT_OK);
    ASSERT_EQ(faulty.api.event_record(*event, stream, &faulty.error), RT_OK);
    ASSERT_EQ(faulty.api.event_synchronize(*event, &faulty.error), RT_OK);
  }
  int64_t time = 0;
  expect_finding(kPluginAtFault, "answers 3600000000000 ns, but at most", [&] {
    EXPECT_EQ(faulty.api.event_elapsed(begin, end, &time, &faulty.error), RT_ERROR_INTERNAL);
  });
  faulty.api.event_destroy(begin);
  faulty.api.event_destroy(end);
  faulty.api.stream_destroy(stream);
}

TEST_F(ValidatedOrder, AnEventThatIsSilentAboutTheErrorBeforeIt) {
  const auto good = Plugin::load(REFERENCE_PLUGIN, {});
  Tables tables;
  tables.device = *good->device_api();
  tables.device->stream_synchronize = [](rt_stream*, rt_error*) -> rt_status {
    return RT_ERROR_DEVICE;
  };
  FaultyDevice faulty(*validation_, *good, tables);
  rt_stream* stream = nullptr;
  rt_event* event = nullptr;
  ASSERT_EQ(faulty.api.stream_create(faulty.device, &stream, &faulty.error), RT_OK);
  ASSERT_EQ(faulty.api.event_create(faulty.device, &event, &faulty.error), RT_OK);
  ASSERT_EQ(faulty.api.event_record(event, stream, &faulty.error), RT_OK);
  EXPECT_EQ(faulty.api.stream_synchronize(stream, &faulty.error), RT_ERROR_DEVICE);
  expect_no_finding();  // nobody has asked the event
  ASSERT_EQ(faulty.api.event_synchronize(event, &faulty.error), RT_OK);
  expect_finding(kPluginAtFault, "although an event behind all of the work answered RT_OK", [&] {
    EXPECT_EQ(faulty.api.stream_synchronize(stream, &faulty.error), RT_ERROR_INTERNAL);
  });
  faulty.api.event_destroy(event);
  faulty.api.stream_destroy(stream);
}

TEST_F(ValidatedCapture, ASecondBegin) {
  const auto device = open();
  Stream stream = device->create_stream();
  const rt_capture_api& api = *device->plugin().capture_api();
  ASSERT_EQ(api.begin(stream.get(), &error_), RT_OK);
  expect_finding(kRuntimeAtFault, "the work of the stream is recorded already",
                 [&] { api.begin(stream.get(), &error_); });
  api.end(stream.get(), nullptr, &error_);
}

TEST_F(ValidatedCapture, ARecordingOfAnotherDevice) {
  const auto device = open(), other = open({}, 1);
  Stream stream = device->create_stream(), elsewhere = other->create_stream();
  const rt_capture_api& api = *device->plugin().capture_api();
  rt_recording* recording = nullptr;
  ASSERT_EQ(api.begin(stream.get(), &error_), RT_OK);
  ASSERT_EQ(api.end(stream.get(), &recording, &error_), RT_OK);
  expect_finding(kRuntimeAtFault, "the recording was made on simulated:0",
                 [&] { api.replay(recording, elsewhere.get(), &error_); });
  api.destroy(recording);
}

TEST_F(ValidatedCapture, ARecordingOnTwoStreamsAtATime) {
  const auto device = open();
  Stream stream = device->create_stream(), second = device->create_stream();
  const Memory memory = device->allocate(kBytes);
  const rt_capture_api& api = *device->plugin().capture_api();
  rt_recording* recording = nullptr;
  ASSERT_EQ(api.begin(stream.get(), &error_), RT_OK);
  stream.fill(memory.data(), 1, kBytes);
  ASSERT_EQ(api.end(stream.get(), &recording, &error_), RT_OK);
  ASSERT_EQ(api.replay(recording, stream.get(), &error_), RT_OK);
  stream.synchronize();
  ASSERT_EQ(api.replay(recording, second.get(), &error_), RT_OK) << "the first run has ended";
  expect_finding(kRuntimeAtFault, "the recording may still run on stream",
                 [&] { api.replay(recording, stream.get(), &error_); });
  second.synchronize();
  api.destroy(recording);
}

}  // namespace
}  // namespace plugins::host::testing
