// Compares candidates by the medians of their launches, and repeats what is close.
#include "runtime/exec/launch_times.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace runtime::exec {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Candidates whose times differ by less are measured again; by less than kEqualShare, they are
// equally fast whatever their scatter is: choosing the slower one costs nothing that anybody sees.
constexpr double kCloseShare = 0.03, kEqualShare = 0.005;
constexpr int kFewestRounds = 2, kMostRounds = 8;

double median_of(std::vector<double> numbers) {
  if (numbers.empty()) return kInfinite;
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  if (numbers.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(numbers.begin(), middle)) / 2;
}

// Whether the medians differ by less than the share of the smaller one, or than the scatter.
bool differ_less(const LaunchTimes& a, const LaunchTimes& b, double share) {
  const double distance = std::abs(a.median() - b.median());
  return distance <= share * std::min(a.median(), b.median()) ||
         distance <= a.scatter() + b.scatter();
}

size_t fastest(const std::vector<LaunchTimes>& times) {
  const auto best = std::min_element(
      times.begin(), times.end(),
      [](const LaunchTimes& a, const LaunchTimes& b) { return a.median() < b.median(); });
  return static_cast<size_t>(best - times.begin());
}

// The candidates that are as fast as the fastest one within the share or the scatter, itself
// included.
std::vector<size_t> as_fast(const std::vector<LaunchTimes>& times, double share) {
  std::vector<size_t> indices;
  if (times.empty()) return indices;
  const LaunchTimes& best = times[fastest(times)];
  for (size_t i = 0; i < times.size(); ++i) {
    if (std::isfinite(times[i].median()) && differ_less(times[i], best, share))
      indices.push_back(i);
  }
  return indices;
}

}  // namespace

double LaunchTimes::median() const { return median_of(ns_); }

double LaunchTimes::scatter() const {
  if (ns_.size() < 2) return 0;
  std::vector<double> distances;
  const double middle = median();
  for (const double ns : ns_) distances.push_back(std::abs(ns - middle));
  return median_of(std::move(distances));
}

void repeat_close(std::vector<LaunchTimes>& times, const std::function<bool(size_t i)>& measure) {
  std::vector<size_t> open = as_fast(times, kCloseShare);
  for (int round = 1; round <= kMostRounds && open.size() > 1; ++round) {
    for (const size_t i : open) {
      if (!measure(i)) return;
    }
    if (round >= kFewestRounds) open = as_fast(times, kEqualShare);
  }
}

std::vector<double> settled(const std::vector<LaunchTimes>& times,
                            const std::vector<double>& estimates) {
  std::vector<double> ns;
  size_t most = 0;
  for (const LaunchTimes& t : times) {
    ns.push_back(t.median());
    most = std::max(most, t.size());
  }
  const bool repeated = most > kFirstTimes;
  std::vector<size_t> equal = as_fast(times, repeated ? kEqualShare : kCloseShare);
  const auto estimate = [&](size_t i) { return estimates[i] > 0 ? estimates[i] : kInfinite; };
  std::stable_sort(equal.begin(), equal.end(),
                   [&](size_t a, size_t b) { return estimate(a) < estimate(b); });
  const double best = times.empty() ? 0 : times[fastest(times)].median();
  for (size_t k = 0; k < equal.size(); ++k)
    ns[equal[k]] = best * (1 + 1e-6 * static_cast<double>(k));
  return ns;
}

}  // namespace runtime::exec
