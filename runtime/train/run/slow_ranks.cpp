// Exchanges the times of steps and compares those of ranks with the same work.
#include "runtime/train/run/slow_ranks.h"

#include <algorithm>
#include <cstdint>

#include "runtime/exec/collectives.h"
#include "runtime/step/make_strategy.h"
#include "runtime/train/formatted.h"
#include "runtime/train/rank/rank_setup.h"

namespace runtime::train {

namespace {

constexpr int64_t kLeastSteps = 20;
constexpr double kLeastSeconds = 2;  // of a window: shorter ones tell of other programs' moments
constexpr double kSlower = 1.2, kLeastDifference = 1e-3;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<SlowRank> slow_ranks(const std::vector<double>& seconds, const parallel::Mesh& mesh) {
  std::vector<SlowRank> slow;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    std::vector<double> others;
    for (const int other : mesh.along(parallel::kDataAxis, rank)) {
      if (other != rank) others.push_back(seconds[static_cast<size_t>(other)]);
    }
    if (others.empty()) continue;
    const double own = seconds[static_cast<size_t>(rank)], usual = median(others);
    if (own > kSlower * usual && own > usual + kLeastDifference) slow.push_back({rank, own, usual});
  }
  return slow;
}

std::string SlowRankWatch::warning_about(const std::vector<SlowRank>& slow, int64_t steps) const {
  const watch::Watchdog& watchdog = setup_.collectives()->watchdog();
  std::string text;
  for (const SlowRank& s : slow) {
    if (named_.contains(s.rank)) continue;
    text += (text.empty() ? "" : ", ") + watchdog.options().names.of(s.rank) + " needs " +
            formatted("%.1f", s.seconds * 1e3) + " ms for its part of a step and the others " +
            formatted("%.1f", s.others * 1e3);
  }
  if (text.empty()) return "";
  return "warning: " + text + " (means of the last " + std::to_string(steps) +
         " steps, without waiting for each other), so that the others wait; see what else runs "
         "there, its clock rate, its temperature and how fast it reads its data" +
         (setup_.strategy.mesh.data == setup_.strategy.mesh.size()
              ? ", or set parallelism.share = \"by_speed\""
              : "");
}

// Whether ranks of the data axis have about as many rows each.
bool SlowRankWatch::same_work() const {
  int64_t least = INT64_MAX, most = 0;
  for (int rank = 0; rank < setup_.world_size(); ++rank) {
    const int64_t rows =
        step::nominal_rows(setup_.strategy.batch, setup_.config.training.global_batch_size, rank);
    least = std::min(least, rows);
    most = std::max(most, rows);
  }
  return most * 10 <= least * 11;
}

std::string SlowRankWatch::look() {
  const parallel::Mesh& mesh = setup_.strategy.mesh;
  const StepTimes now = cost_.so_far();
  const int64_t steps = now.steps - begin_.steps;
  if (mesh.size() == 1 || steps < kLeastSteps || !same_work()) return "";
  std::vector<double> values(static_cast<size_t>(mesh.size()) + 1);
  const double seconds = now.seconds - begin_.seconds;
  values[static_cast<size_t>(setup_.collectives()->rank())] =
      (seconds - (now.exposed - begin_.exposed)) / static_cast<double>(steps);
  values.back() = seconds;
  values = setup_.maximum(std::move(values));
  if (values.back() < kLeastSeconds) return "";
  begin_ = now;
  const std::vector<SlowRank> slow = slow_ranks(values, mesh);
  std::string text = warning_about(slow, steps);
  for (const SlowRank& s : slow) named_.insert(s.rank);
  return text;
}

}  // namespace runtime::train
