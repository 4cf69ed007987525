// Compares candidates by the first quartiles of their launches, and repeats what is close.
#include "runtime/exec/launch_times.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace runtime::exec {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int kFewestRounds = 2, kMostRounds = 8;

// What two times may differ by without being known to differ: a share of them, or what is unknown
// of both.
struct Margin {
  double share;
  double (LaunchTimes::*unknown)() const;
};
constexpr Margin kCloseTimes{0.03, &LaunchTimes::spread};
// Candidates that were not measured again, and those that were: choosing the slower one then costs
// nothing that anybody sees.
constexpr Margin kAlike{0.03, &LaunchTimes::scatter}, kEqual{0.005, &LaunchTimes::scatter};

bool differ_less(const LaunchTimes& a, const LaunchTimes& b, const Margin& margin) {
  const double distance = std::abs(a.time() - b.time());
  return distance <= margin.share * std::min(a.time(), b.time()) ||
         distance <= (a.*margin.unknown)() + (b.*margin.unknown)();
}

size_t fastest(const std::vector<LaunchTimes>& times) {
  const auto best = std::min_element(
      times.begin(), times.end(),
      [](const LaunchTimes& a, const LaunchTimes& b) { return a.time() < b.time(); });
  return static_cast<size_t>(best - times.begin());
}

// The candidates that are as fast as the fastest one within the margin, itself included.
std::vector<size_t> as_fast(const std::vector<LaunchTimes>& times, const Margin& margin) {
  std::vector<size_t> indices;
  if (times.empty()) return indices;
  const LaunchTimes& best = times[fastest(times)];
  for (size_t i = 0; i < times.size(); ++i) {
    if (std::isfinite(times[i].time()) && differ_less(times[i], best, margin)) indices.push_back(i);
  }
  return indices;
}

}  // namespace

double LaunchTimes::at(size_t divisor) const {
  if (ns_.empty()) return kInfinite;
  std::vector<double> sorted = ns_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[(sorted.size() - 1) / divisor];
}

double LaunchTimes::time() const { return at(4); }

double LaunchTimes::scatter() const {
  return ns_.empty() ? 0 : time() - *std::min_element(ns_.begin(), ns_.end());
}

double LaunchTimes::spread() const {
  return ns_.empty() ? 0 : at(2) - *std::min_element(ns_.begin(), ns_.end());
}

void repeat_close(std::vector<LaunchTimes>& times, const std::function<bool(size_t i)>& measure) {
  std::vector<size_t> open = as_fast(times, kCloseTimes);
  for (int round = 1; round <= kMostRounds && open.size() > 1; ++round) {
    for (const size_t i : open) {
      if (!measure(i)) return;
    }
    if (round >= kFewestRounds) open = as_fast(times, kEqual);
  }
}

std::vector<double> settled(const std::vector<LaunchTimes>& times,
                            const std::vector<double>& estimates) {
  std::vector<double> ns;
  size_t most = 0;
  for (const LaunchTimes& t : times) {
    ns.push_back(t.time());
    most = std::max(most, t.size());
  }
  const bool repeated = most > kFirstTimes;
  std::vector<size_t> equal = as_fast(times, repeated ? kEqual : kAlike);
  const auto estimate = [&](size_t i) { return estimates[i] > 0 ? estimates[i] : kInfinite; };
  std::stable_sort(equal.begin(), equal.end(),
                   [&](size_t a, size_t b) { return estimate(a) < estimate(b); });
  const double best = times.empty() ? 0 : times[fastest(times)].time();
  for (size_t k = 0; k < equal.size(); ++k)
    ns[equal[k]] = best * (1 + 1e-6 * static_cast<double>(k));
  return ns;
}

}  // namespace runtime::exec
