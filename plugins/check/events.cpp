// Checks of events: order between streams, and time.
#include <fmt/format.h>

#include <chrono>

#include "plugins/check/busy.h"
#include "plugins/check/check.h"

namespace plugins::check {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr size_t kBytesOfEvents = 4096;

std::string holds_back_another_stream(Context& context) {
  const auto device = context.device();
  Busy busy(device);
  host::Event event = device->create_event();
  const host::Memory source = device->allocate(kBytesOfEvents),
                     copy = device->allocate(kBytesOfEvents);
  host::Stream writer = device->create_stream(), reader = device->create_stream();
  for (int round = 1; round <= 5; ++round) {
    busy.queue(writer, 40ms);
    writer.fill(source.data(), round, kBytesOfEvents);
    event.record(writer);
    event.wait(reader);
    reader.copy(copy.data(), source.data(), kBytesOfEvents);
    const int found = first_byte(reader, copy);
    require(found == round,
            fmt::format("a stream that waits for the event of another one copied {} where the "
                        "other had filled in {} after 40 ms of work: it did not wait",
                        found, round));
  }
  return "";
}

// The writer may go on only when the reader has read.
std::string holds_back_a_writer(Context& context) {
  const auto device = context.device();
  Busy busy(device);
  host::Event event = device->create_event();
  const host::Memory source = device->allocate(kBytesOfEvents),
                     copy = device->allocate(kBytesOfEvents);
  host::Stream reader = device->create_stream(), writer = device->create_stream();
  for (int round = 1; round <= 5; ++round) {
    writer.fill(source.data(), round, kBytesOfEvents);
    writer.synchronize();
    busy.queue(reader, 40ms);
    reader.copy(copy.data(), source.data(), kBytesOfEvents);
    event.record(reader);
    event.wait(writer);
    writer.fill(source.data(), 0xEE, kBytesOfEvents);
    const int found = first_byte(reader, copy);
    writer.synchronize();
    require(found == round,
            fmt::format("a stream wrote {} into memory that another one still had to read, "
                        "although it waits for an event behind that read",
                        found));
  }
  return "";
}

std::string does_not_wait_itself(Context& context) {
  const auto device = context.device();
  Busy busy(device);
  host::Stream first = device->create_stream(), second = device->create_stream();
  host::Event event = device->create_event();
  const auto begin = Clock::now();
  busy.queue(first, 200ms);
  event.record(first);
  event.wait(second);
  const auto queued = Clock::now() - begin;
  second.synchronize();
  const auto whole = Clock::now() - begin;
  require(queued < whole / 2,
          fmt::format("event_record and event_wait took {:.0f} ms of the {:.0f} ms of the work "
                      "before them; expected calls that do not wait",
                      queued / 1.0ms, whole / 1.0ms));
  return "";
}

std::string queries_truly(Context& context) {
  const auto device = context.device();
  Busy busy(device);
  host::Stream stream = device->create_stream();
  host::Event event = device->create_event();
  for (const auto time : {100ms, 400ms, 1600ms}) {
    busy.queue(stream, time);
    event.record(stream);
    const bool complete = event.query();
    const auto begin = Clock::now();
    event.synchronize();
    stream.synchronize();
    const auto left = Clock::now() - begin;
    require(event.query(), "event_query answers RT_NOT_READY after event_synchronize");
    require(!complete || left < time / 4,
            fmt::format("event_query answered RT_OK while {:.0f} ms of work before the event had "
                        "still to run; expected RT_NOT_READY",
                        left / 1.0ms));
    if (!complete) return "";
  }
  throw Fault("event_query never answered RT_NOT_READY behind 1.6 s of work");
}

std::string event_synchronizes(Context& context) {
  const auto device = context.device();
  Busy busy(device);
  host::Event event = device->create_event();
  const host::Memory memory = device->allocate(kBytesOfEvents),
                     pinned = device->allocate(kBytesOfEvents, RT_MEMORY_PINNED_HOST);
  host::Stream stream = device->create_stream();
  auto* const seen = static_cast<volatile unsigned char*>(pinned.data());
  for (int round = 1; round <= 3; ++round) {
    *seen = 0;
    busy.queue(stream, 60ms);
    stream.fill(memory.data(), round, kBytesOfEvents);
    stream.copy(pinned.data(), memory.data(), kBytesOfEvents);
    event.record(stream);
    event.synchronize();
    const int found = *seen;
    stream.synchronize();
    require(found == round,
            fmt::format("after event_synchronize, pinned host memory holds {}, expected {}: the "
                        "call did not wait for the work before the event",
                        found, round));
  }
  return "";
}

std::string follows_the_latest_record(Context& context) {
  const auto device = context.device();
  Busy busy(device);
  host::Event event = device->create_event();
  const host::Memory source = device->allocate(kBytesOfEvents),
                     copy = device->allocate(kBytesOfEvents);
  host::Stream first = device->create_stream(), second = device->create_stream();
  for (int round = 1; round <= 3; ++round) {
    event.record(first);
    first.synchronize();  // the earlier record is complete
    busy.queue(first, 60ms);
    first.fill(source.data(), round, kBytesOfEvents);
    event.record(first);
    event.wait(second);
    second.copy(copy.data(), source.data(), kBytesOfEvents);
    const int found = first_byte(second, copy);
    require(found == round,
            fmt::format("a stream copied {}, expected {}: it waited for an earlier record of the "
                        "event and not for the latest",
                        found, round));
  }
  return "";
}

// A wait is for the record of that moment: a later one must not hold the waiting stream back.
std::string waits_for_the_record_of_the_moment(Context& context) {
  const auto device = context.device();
  Busy busy(device);
  host::Stream first = device->create_stream(), second = device->create_stream();
  host::Event event = device->create_event(), own = device->create_event();
  event.record(first);
  event.wait(second);
  own.record(second);
  busy.queue(first, 400ms);
  event.record(first);
  const auto begin = Clock::now();
  own.synchronize();
  const auto waited = Clock::now() - begin;
  first.synchronize();
  const auto whole = Clock::now() - begin;
  require(waited < whole / 2 || whole < 100ms,
          fmt::format("a stream that waited for an event was held back for {:.0f} ms by a later "
                      "record of the same event",
                      waited / 1.0ms));
  return "";
}

std::string counts_as_complete_when_new(Context& context) {
  const auto device = context.device();
  host::Stream stream = device->create_stream();
  host::Event event = device->create_event();
  require(event.query(), "event_query of an event that was never recorded is not RT_OK");
  event.synchronize();
  event.wait(stream);
  stream.synchronize();
  return "";
}

std::string measures_time(Context& context) {
  const auto device = context.device();
  Busy busy(device);
  host::Stream stream = device->create_stream();
  host::Event begin = device->create_event(), end = device->create_event();
  stream.synchronize();
  const auto before = Clock::now();
  begin.record(stream);
  busy.queue(stream, 150ms);
  end.record(stream);
  stream.synchronize();
  const auto wall = Clock::now() - before;
  const std::chrono::nanoseconds elapsed = host::Event::elapsed(begin, end);
  require(elapsed > wall / 2 && elapsed < wall + 5ms,
          fmt::format("event_elapsed says {:.1f} ms for work that took {:.1f} ms of the host's "
                      "time",
                      elapsed / 1.0ms, wall / 1.0ms));
  return fmt::format("{:.1f} ms of {:.1f} ms", elapsed / 1.0ms, wall / 1.0ms);
}

std::string may_go_before_its_work(Context& context) {
  const auto device = context.device();
  Busy busy(device);
  const host::Memory source = device->allocate(kBytesOfEvents),
                     copy = device->allocate(kBytesOfEvents);
  host::Stream first = device->create_stream(), second = device->create_stream();
  busy.queue(first, 60ms);
  first.fill(source.data(), 9, kBytesOfEvents);
  {
    host::Event event = device->create_event();
    event.record(first);
    event.wait(second);
  }
  second.copy(copy.data(), source.data(), kBytesOfEvents);
  const int found = first_byte(second, copy);
  require(found == 9,
          fmt::format("a stream copied {}, expected 9: its wait was lost when the event "
                      "was destroyed",
                      found));
  return "";
}

}  // namespace

void add_event_checks(std::vector<Check>& checks) {
  const auto add = [&](const char* name, std::string (*body)(Context&)) {
    checks.push_back({"events", name, body});
  };
  add("hold back a stream that waits for another one's work", holds_back_another_stream);
  add("hold back a stream that would overwrite what another one reads", holds_back_a_writer);
  add("are recorded and waited for without waiting in the call", does_not_wait_itself);
  add("answer a query with RT_NOT_READY while work before them runs", queries_truly);
  add("have completed when they are synchronised", event_synchronizes);
  add("stand for their latest record", follows_the_latest_record);
  add("hold a waiting stream back only for the record of that moment",
      waits_for_the_record_of_the_moment);
  add("that were never recorded count as complete", counts_as_complete_when_new);
  add("measure the time between two records", measures_time);
  add("may be destroyed before the work that waits for them has run", may_go_before_its_work);
}

}  // namespace plugins::check
