// Checks that an event stands for its latest record, and what it measures.
#include "rt/sdk/recorded_event.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "tests/plugins/sdk/description.h"

namespace rt::sdk {
namespace {

// A point in the work of a stream, which the test completes.
struct Marker {
  struct Point {
    std::atomic<int64_t> time = 0;  // 0: not complete
  };
  std::shared_ptr<Point> point = std::make_shared<Point>();

  void synchronize() const {
    for (int64_t wait = 0; !is_complete(); wait = 1) point->time.wait(wait);
  }
  bool is_complete() const { return point->time != 0; }
  int64_t nanoseconds() const { return point->time; }
};

struct Stream {
  std::vector<Marker> marks, waits;

  Marker mark() {
    marks.emplace_back();
    return marks.back();
  }
  void wait(const Marker& marker) { waits.push_back(marker); }
};

TEST(RecordedEvent, IsCompleteUntilItIsRecorded) {
  RecordedEvent<Marker> event;
  Stream stream;
  EXPECT_TRUE(event.is_complete());
  event.synchronize();
  event.wait(stream);
  EXPECT_TRUE(stream.waits.empty()) << "there is nothing to wait for";
  event.record(stream);
  EXPECT_FALSE(event.is_complete());
  stream.marks[0].point->time = 5;
  EXPECT_TRUE(event.is_complete());
  event.synchronize();
}

TEST(RecordedEvent, AWaitIsForTheRecordOfThatMoment) {
  Stream stream, other;
  {
    RecordedEvent<Marker> event;
    event.record(stream);
    event.wait(other);
    event.record(stream);
    stream.marks[0].point->time = 5;
    EXPECT_FALSE(event.is_complete()) << "the second record is the latest";
    EXPECT_TRUE(other.waits[0].is_complete()) << "the first one was waited for";
    event.wait(other);
  }
  EXPECT_FALSE(other.waits[1].is_complete()) << "the event is gone, what was waited for is not";
  stream.marks[1].point->time = 6;
  EXPECT_TRUE(other.waits[1].is_complete());
}

TEST(RecordedEvent, MeasuresTimeBetweenCompleteRecords) {
  RecordedEvent<Marker> begin, end;
  Stream stream;
  const auto elapsed = [&] { return begin.elapsed_until(end); };
  EXPECT_NE(error_of(elapsed).find("was not recorded or is not complete"), std::string::npos);
  begin.record(stream);
  end.record(stream);
  stream.marks[0].point->time = 100;
  EXPECT_NE(error_of(elapsed).find("was not recorded or is not complete"), std::string::npos);
  stream.marks[1].point->time = 350;
  EXPECT_EQ(elapsed(), 250);
}

}  // namespace
}  // namespace rt::sdk
