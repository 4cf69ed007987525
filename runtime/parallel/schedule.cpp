// Builds the slots of GPipe, 1F1B and interleaved 1F1B, and simulates them.
#include "runtime/parallel/schedule.h"

#include <algorithm>
#include <string>

#include "runtime/error.h"
#include "runtime/row_of.h"

namespace runtime::parallel {

namespace {

void check(const ScheduleOptions& o) {
  const auto text = [](int n) { return std::to_string(n); };
  if (o.ranks < 1 || o.micro_batches < 1 || o.chunks < 1)
    throw ConfigurationError("a pipeline of " + text(o.ranks) + " ranks with " + text(o.chunks) +
                             " stages each and " + text(o.micro_batches) +
                             " micro-batches: all three must be at least 1");
  const bool interleaved = o.kind->chunks;
  if (interleaved != (o.chunks > 1))
    throw ConfigurationError(
        interleaved ? "the interleaved pipeline schedule needs at least 2 stages a rank, got " +
                          text(o.chunks) + "; give 2, or choose the schedule 1f1b"
                    : "the pipeline schedules gpipe and 1f1b have 1 stage a rank, got " +
                          text(o.chunks) + "; give 1, or choose the schedule interleaved");
  const int rest = o.micro_batches % o.ranks;
  if (!interleaved || !o.backward || rest == 0) return;
  const int below = o.micro_batches - rest, above = below + o.ranks;
  throw ConfigurationError(
      "the interleaved pipeline schedule needs a number of micro-batches that " + text(o.ranks) +
      " ranks divide, got " + text(o.micro_batches) + "; the nearest " +
      (below > 0 ? "are " + text(below) + " and " : "is ") + text(above) +
      " (or choose the schedule 1f1b, which takes any number)");
}

// Micro-batches go through the chunks in groups of `ranks` micro-batches.
std::vector<Slot> in_groups(const ScheduleOptions& o, bool backward) {
  std::vector<Slot> slots;
  for (int first = 0; first < o.micro_batches; first += o.ranks) {
    for (int c = 0; c < o.chunks; ++c) {
      for (int m = first; m < std::min(first + o.ranks, o.micro_batches); ++m)
        slots.push_back({backward, backward ? o.chunks - 1 - c : c, m});
    }
  }
  return slots;
}

class Simulation {
 public:
  Simulation(const Schedule& schedule, const StageTimes& times)
      : schedule_(schedule),
        times_(times),
        done_(2 * static_cast<size_t>(schedule.stages() * schedule.micro_batches), kNotYet),
        now_(schedule.ranks) {
    result_.end.resize(schedule.ranks);
  }

  Timeline run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (int r = 0; r < schedule_.ranks; ++r) {
        while (advance(r)) progress = true;
      }
    }
    double busy = 0;
    for (int r = 0; r < schedule_.ranks; ++r) {
      if (result_.end[r].size() != schedule_.slots[r].size())
        throw InternalError("a pipeline schedule in which rank " + std::to_string(r) +
                            " waits for ever");
      result_.seconds = std::max(result_.seconds, now_[r]);
      for (const Slot& slot : schedule_.slots[r]) busy += seconds(slot, r);
    }
    if (result_.seconds > 0) result_.bubble = 1 - busy / (schedule_.ranks * result_.seconds);
    return std::move(result_);
  }

 private:
  static constexpr double kNotYet = -1;

  int stage(const Slot& slot, int rank) const { return slot.chunk * schedule_.ranks + rank; }

  double seconds(const Slot& slot, int rank) const {
    return (slot.backward ? times_.backward : times_.forward)[stage(slot, rank)];
  }

  double& done(bool backward, int stage, int micro_batch) {
    return done_[(2 * stage + backward) * schedule_.micro_batches + micro_batch];
  }

  // When the input that the slot needs from another stage arrives.
  double arrival(const Slot& slot, int stage) {
    const int from = slot.backward ? stage + 1 : stage - 1;
    if (from < 0 || from == schedule_.stages()) return 0;
    const double end = done(slot.backward, from, slot.micro_batch);
    const std::vector<double>& send = slot.backward ? times_.send_backward : times_.send_forward;
    return end == kNotYet || send.empty() || schedule_.ranks == 1 ? end : end + send[from];
  }

  bool advance(int rank) {
    std::vector<double>& ends = result_.end[rank];
    if (ends.size() == schedule_.slots[rank].size()) return false;
    const Slot& slot = schedule_.slots[rank][ends.size()];
    const int s = stage(slot, rank);
    const double ready = arrival(slot, s);
    if (ready == kNotYet || (slot.backward && done(false, s, slot.micro_batch) == kNotYet))
      return false;
    now_[rank] = std::max(now_[rank], ready) + seconds(slot, rank);
    ends.push_back(now_[rank]);
    done(slot.backward, s, slot.micro_batch) = now_[rank];
    return true;
  }

  const Schedule& schedule_;
  const StageTimes& times_;
  std::vector<double> done_;  // by stage, direction and micro-batch
  std::vector<double> now_;   // by rank
  Timeline result_;
};

int all_forwards(const ScheduleOptions& o) { return o.micro_batches * o.chunks; }

}  // namespace

const std::vector<ScheduleKind>& schedule_kinds() {
  static const std::vector<ScheduleKind>& all = *new std::vector<ScheduleKind>{
      // All forward passes, then all backward passes: Huang et al., "GPipe: efficient training of
      // giant neural networks using pipeline parallelism", 2019.
      {"gpipe", false, [](const ScheduleOptions& o, int) { return all_forwards(o); }},
      // One forward, one backward, with a flush at the end of the step: Narayanan et al.,
      // "Memory-efficient pipeline-parallel DNN training", 2021. As fast as GPipe; keeps fewer
      // activations.
      {"1f1b", false,
       [](const ScheduleOptions& o, int behind) { return std::min(all_forwards(o), behind); }},
      // 1F1B with several stages on each rank: Narayanan et al., "Efficient large-scale language
      // model training on GPU clusters using Megatron-LM", 2021. It has a smaller bubble and sends
      // more.
      {"interleaved", true, [](const ScheduleOptions& o, int behind) {
         return std::min(all_forwards(o), 2 * behind + (o.chunks - 1) * o.ranks);
       }}};
  return all;
}

const ScheduleKind* schedule_kind(std::string_view name) {
  return &find_row("parallelism.pipeline_schedule", name, schedule_kinds());
}

Schedule make_schedule(const ScheduleOptions& options) {
  check(options);
  Schedule schedule{options.ranks, options.chunks, options.micro_batches, {}};
  const std::vector<Slot> forward = in_groups(options, false), backward = in_groups(options, true);
  for (int r = 0; r < options.ranks; ++r) {
    std::vector<Slot>& slots = schedule.slots.emplace_back();
    if (!options.backward) {
      slots = forward;
      continue;
    }
    const size_t ahead = options.kind->warm_up(options, options.ranks - 1 - r);
    for (size_t i = 0; i < forward.size() + ahead; ++i) {
      if (i < forward.size()) slots.push_back(forward[i]);
      if (i >= ahead) slots.push_back(backward[i - ahead]);
    }
  }
  return schedule;
}

int peak_in_flight(const std::vector<Slot>& slots, int chunk) {
  int now = 0, peak = 0;
  for (const Slot& slot : slots) {
    if (chunk < 0 || slot.chunk == chunk) peak = std::max(peak, now += slot.backward ? -1 : 1);
  }
  return peak;
}

Timeline simulate(const Schedule& schedule, const StageTimes& times) {
  return Simulation(schedule, times).run();
}

}  // namespace runtime::parallel
