// Runs a contest for each operation, and adds up what disturbed it.
#include "runtime/exec/tuner.h"

#include <algorithm>
#include <cmath>

#include "plugins/host/error.h"

namespace runtime::exec {

namespace {

using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

// All that belongs to measuring, such as the loading of code, takes so many times the limit at
// most.
constexpr int kWholeFactor = 10;
// The machine is busy if threads wait for a core for more than this share of the time, or if half
// of the candidates have a median that is above their shortest launch by more than this share.
constexpr double kBusyWait = 0.05, kDisturbed = 0.15;
// Where the fastest candidate takes a smaller share of what the operations before take together, of
// which the costliest come first, nobody sees which of two close ones is faster.
constexpr double kWorthwhile = 0.02;

}  // namespace

Tuner::Tuner(std::shared_ptr<plugins::host::Device> device, nanoseconds limit,
             std::function<nanoseconds()> waited)
    : device_(std::move(device)),
      stream_(device_->create_stream()),
      budget_{static_cast<double>(limit.count()), Clock::time_point::max()},
      whole_limit_(limit > nanoseconds::max() / kWholeFactor ? nanoseconds::max()
                                                             : limit * kWholeFactor),
      waited_(std::move(waited)) {}

std::vector<Measurement> Tuner::measure(const Subject& subject,
                                        const std::vector<graph::Candidate>& candidates,
                                        const std::vector<std::string>& keys) {
  std::vector<graph::Candidate> unknown;
  std::vector<std::string> their_keys;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (known_.contains(keys[i])) continue;
    unknown.push_back(candidates[i]);
    their_keys.push_back(keys[i]);
  }
  if (!unknown.empty()) {
    std::vector<Measurement> found = contest(subject, unknown);
    for (size_t i = 0; i < found.size(); ++i) known_.emplace(their_keys[i], std::move(found[i]));
  }
  std::vector<Measurement> results;
  for (const std::string& key : keys) results.push_back(known_.at(key));
  return results;
}

std::vector<Measurement> Tuner::contest(const Subject& subject,
                                        const std::vector<graph::Candidate>& candidates) {
  const auto begin = Clock::now();
  const nanoseconds left = whole_limit_ - took_;
  budget_.end = left > Clock::time_point::max() - begin ? Clock::time_point::max() : begin + left;
  std::vector<Measurement> results(candidates.size());
  if (budget_.is_spent()) return results;
  const nanoseconds waited = waited_();
  try {
    Contest all(*device_, stream_, numbers_, subject, candidates);
    results = all.run(budget_, kWorthwhile * best_ns_);
    if (std::isfinite(all.best_ns())) best_ns_ += all.best_ns();
    if (!all.obstacle().empty())
      obstacles_.push_back(subject.operation.name + " is not measured: " + all.obstacle());
  } catch (const plugins::host::Error& e) {
    // Without memory for it here, a candidate may still run when no other buffers are allocated.
    if (e.code() != RT_ERROR_OUT_OF_MEMORY) throw;
  }
  waited_here_ += std::max(waited_() - waited, nanoseconds(0));
  took_ += Clock::now() - begin;
  for (const Measurement& result : results) {
    if (result.times.size() >= kFirstTimes)
      spreads_.push_back(result.times.spread() / result.times.time());
  }
  return results;
}

bool Tuner::was_busy() const {
  const auto disturbed = std::count_if(spreads_.begin(), spreads_.end(),
                                       [](double share) { return share > kDisturbed; });
  return static_cast<double>(waited_here_.count()) >
             kBusyWait * static_cast<double>(took_.count()) ||
         2 * disturbed > static_cast<std::ptrdiff_t>(spreads_.size());
}

std::vector<std::string> Tuner::notes() const {
  std::vector<std::string> notes;
  for (const std::string& obstacle : obstacles_) notes.push_back("device.tune: " + obstacle);
  if (was_busy())
    notes.emplace_back(
        "device.tune: the machine was busy while layouts and algorithms were measured; this run "
        "uses what was chosen, but it is not kept, so that the next run measures again");
  return notes;
}

}  // namespace runtime::exec
