// Writes trace.json, with the clocks of all ranks corrected.
#include "runtime/analysis/trace.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/analysis/profile.h"
#include "runtime/analysis/spans.h"
#include "runtime/parallel/mesh.h"

namespace runtime::analysis {

namespace {

using exec::Span;
using exec::SpanKind;
using nlohmann::ordered_json;

// Threads of the trace. Collectives have those after the last of these.
constexpr int kHost = 1, kStream = 2, kTransfers = 3, kCollectives = 4;

// The clock of the rank in the cycle of a step, minus that of rank 0.
int64_t offset_at(const train::Recording& recording, int64_t step) {
  for (const train::RecordedCycle& cycle : recording.cycles) {
    if (step < cycle.first_step + cycle.steps) return cycle.clock.offset_ns;
  }
  return 0;
}

class Writer {
 public:
  Writer(const train::Recording& recording, const train::StepPrograms& programs, int rank,
         int64_t origin_ns)
      : recording_(recording),
        rank_(rank),
        origin_ns_(origin_ns),
        stream_(programs.setup().device->is_inline() ? kHost : kStream),
        operations_(spans_of(recording, SpanKind::kOperation)) {
    describe_track(
        "process_name", 0,
        {{"name", "rank " + std::to_string(rank) + " (" + programs.setup().device->id() + ")"}});
    describe_track("process_sort_index", 0, {{"sort_index", rank}});
    thread(kHost, stream_ == kHost ? "host and stream" : "host");
    if (stream_ != kHost) thread(kStream, "stream");
  }

  std::string write() {
    host_spans();
    if (stream_ != kHost) device_steps();
    for (const SpanGroup& phase : group_by_phase(operations_)) write_phase(phase);
    memory();
    transfers();
    collectives();
    return std::move(text_);
  }

 private:
  void event(const ordered_json& json) {
    if (!text_.empty()) text_ += ",\n";
    text_ += json.dump();
  }
  void describe_track(const char* what, int tid, const ordered_json& args) {
    event({{"ph", "M"}, {"name", what}, {"pid", rank_}, {"tid", tid}, {"args", args}});
  }
  void thread(int tid, const std::string& name) {
    describe_track("thread_name", tid, {{"name", name}});
    describe_track("thread_sort_index", tid, {{"sort_index", tid}});
  }
  double microseconds(int64_t ns) const { return static_cast<double>(ns) / 1e3; }
  int64_t time(int64_t ns, int64_t step) const {
    return ns - offset_at(recording_, step) - origin_ns_;
  }
  void span(const char* category, const std::string& name, int tid, const Span& s,
            const ordered_json& args = ordered_json::object()) {
    event({{"ph", "X"},
           {"cat", category},
           {"name", name},
           {"pid", rank_},
           {"tid", tid},
           {"ts", microseconds(time(s.begin_ns, s.step))},
           {"dur", microseconds(s.end_ns - s.begin_ns)},
           {"args", args}});
  }
  static std::string step_name(int64_t step) { return "step " + std::to_string(step + 1); }

  void host_spans() {
    for (const Span& s : spans_of(recording_, SpanKind::kStep))
      span("step", step_name(s.step), kHost, s);
    for (const auto& [kind, name] : {std::pair{SpanKind::kData, "wait for data"},
                                     {SpanKind::kPrepare, "programs"},
                                     {SpanKind::kUpload, "upload"},
                                     {SpanKind::kLaunch, "launch"},
                                     {SpanKind::kReport, "results"},
                                     {SpanKind::kExchange, "exchange"},
                                     {SpanKind::kBetween, "between steps"}}) {
      if (kind == SpanKind::kLaunch && stream_ == kHost) continue;  // the operations lie there
      for (const Span& s : spans_of(recording_, kind)) span("host", name, kHost, s);
    }
  }

  // On a device with queues a step lasts from its first operation to its last.
  void device_steps() {
    std::map<int64_t, Span> steps;
    for (const Span& s : operations_) {
      Span& step = steps.try_emplace(s.step, s).first->second;
      step.end_ns = std::max(step.end_ns, s.end_ns);
    }
    for (const auto& [number, s] : steps) span("step", step_name(number), kStream, s);
  }

  Span span_of(const SpanGroup& group) const {
    Span s = operations_[group.begin];
    s.begin_ns = group.begin_ns;
    s.end_ns = group.end_ns;
    return s;
  }

  void write_phase(const SpanGroup& phase) {
    span("phase", phase.name, stream_, span_of(phase));
    for (const SpanGroup& layer : group_by_layer(operations_, phase)) {
      span("layer", layer.name, stream_, span_of(layer));
      for (size_t i = layer.begin; i < layer.end; ++i) write_operation(operations_[i]);
    }
  }

  void write_operation(const Span& s) {
    const graph::Node& node = node_of(s);
    ordered_json args = {{"layer", node.layer}};
    if (!node.collective) {
      const NodeCost cost = cost_of(*s.program, static_cast<size_t>(s.node));
      args["implementation"] = node.implementation;
      args["flops"] = cost.flops;
      args["bytes"] = cost.bytes;
    }
    span(node.collective ? "communication" : "operation", node.op, stream_, s, args);
  }

  void memory() {
    std::map<const exec::Program*, std::vector<uint64_t>> alive;
    for (const Span& s : operations_) {
      std::vector<uint64_t>& bytes = alive[s.program];
      if (bytes.empty()) bytes = alive_bytes(*s.program);
      event({{"ph", "C"},
             {"name", "planned activations"},
             {"pid", rank_},
             {"ts", microseconds(time(s.begin_ns, s.step))},
             {"args", {{"bytes", bytes[static_cast<size_t>(s.node)]}}}});
    }
  }

  void transfers() {
    const std::vector<Span> all = spans_of(recording_, SpanKind::kTransfer);
    if (!all.empty()) thread(kTransfers, "transfers");
    for (const Span& s : all) span("transfer", "batch", kTransfers, s);
  }

  // The collectives of one communicator run in order, and so do the transfers from one rank to
  // another: what begins while another one runs waits for it.
  void collectives() {
    struct Track {
      int tid = 0;
      int64_t end_ns = INT64_MIN;
    };
    std::map<std::array<int, 3>, Track> tracks;
    for (Span s : spans_of(recording_, SpanKind::kCollective)) {
      const rt_collective& c = s.call->collective;
      const bool transfer = c.kind == RT_SEND || c.kind == RT_RECEIVE;
      const auto [found, is_new] =
          tracks.try_emplace({s.call->communicator, transfer ? c.kind : 0, transfer ? c.peer : 0});
      Track& track = found->second;
      if (is_new) {
        track.tid = kCollectives + static_cast<int>(tracks.size()) - 1;
        thread(track.tid, track_name(*s.call, transfer));
      }
      const int64_t started = s.begin_ns;
      s.begin_ns = std::clamp(track.end_ns, s.begin_ns, s.end_ns);
      track.end_ns = std::max(track.end_ns, s.end_ns);
      span("communication", describe(*s.call), track.tid, s,
           {{"bytes", s.call->send_bytes}, {"started", microseconds(time(started, s.step))}});
    }
  }

  static std::string track_name(const exec::CollectiveCall& call, bool transfer) {
    std::string name = parallel::kCommunicatorNames[static_cast<size_t>(call.communicator)];
    if (transfer)
      name += (call.collective.kind == RT_SEND ? " to " : " from ") +
              std::to_string(call.collective.peer);
    return "network: " + name;
  }

  const train::Recording& recording_;
  const int rank_;
  const int64_t origin_ns_;
  const int stream_;  // the thread of the operations
  const std::vector<Span> operations_;
  std::string text_;
};

}  // namespace

int64_t first_ns(const train::Recording& recording) {
  int64_t first = INT64_MAX;
  for (const Span& s : recording.spans)
    first = std::min(first, s.begin_ns - offset_at(recording, s.step));
  return first;
}

std::string trace_events(const train::Recording& recording, const train::StepPrograms& programs,
                         int rank, int64_t origin_ns) {
  return Writer(recording, programs, rank, origin_ns).write();
}

std::string trace_file(const std::vector<std::string>& events_of_ranks) {
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  for (const std::string& events : events_of_ranks)
    text += (&events == &events_of_ranks.front() ? "" : ",\n") + events;
  return text + "\n]}\n";
}

}  // namespace runtime::analysis
