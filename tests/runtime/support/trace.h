// The rules of a trace in Chromium's "Trace Event Format", for tests.
#ifndef TESTS_RUNTIME_SUPPORT_TRACE_H_
#define TESTS_RUNTIME_SUPPORT_TRACE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace runtime::test {

// One complete event, with the time of the events directly inside of it.
struct TraceSpan {
  std::string name, category;
  double begin = 0, end = 0;  // microseconds
  int depth = 0;              // number of events around it
  double inside = 0;
};

using TraceTrack = std::pair<int, int>;  // process and thread

// Checks every event and returns the complete ones by track, in the order of their begin. Two
// events of a track must nest or follow each other, as the format demands.
inline std::map<TraceTrack, std::vector<TraceSpan>> read_trace(const nlohmann::json& trace) {
  std::map<TraceTrack, std::vector<TraceSpan>> tracks;
  std::map<TraceTrack, std::string> names;
  for (const auto& e : trace.at("traceEvents")) {
    const std::string phase = e.at("ph");
    EXPECT_TRUE(e.at("pid").is_number_integer());
    EXPECT_TRUE(e.at("name").is_string());
    if (phase == "M") {
      if (e["name"] == "thread_name") names[{e["pid"], e["tid"]}] = e["args"]["name"];
      continue;
    }
    EXPECT_TRUE(e.at("ts").is_number());
    if (phase == "C") continue;
    EXPECT_EQ(phase, "X");
    EXPECT_GE(e.at("dur").get<double>(), 0);
    tracks[{e["pid"], e.at("tid")}].push_back(
        {e["name"], e["cat"], e["ts"], e["ts"].get<double>() + e["dur"].get<double>()});
  }
  constexpr double kRounding = 0.0015;  // of times in microseconds with three digits
  for (auto& [track, spans] : tracks) {
    EXPECT_TRUE(names.contains(track)) << "a track without a name";
    std::stable_sort(spans.begin(), spans.end(), [](const TraceSpan& a, const TraceSpan& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    std::vector<TraceSpan*> open;
    for (TraceSpan& span : spans) {
      while (!open.empty() && span.begin >= open.back()->end - kRounding &&
             (span.end > open.back()->end + kRounding || span.begin > open.back()->begin))
        open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(span.end, open.back()->end + kRounding)
            << span.name << " crosses the end of " << open.back()->name;
        open.back()->inside += span.end - span.begin;
      }
      span.depth = static_cast<int>(open.size());
      open.push_back(&span);
    }
  }
  return tracks;
}

}  // namespace runtime::test

#endif  // TESTS_RUNTIME_SUPPORT_TRACE_H_
