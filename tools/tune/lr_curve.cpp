// Smooths the losses of a range test, and finds its steepest fall and its end.
#include "tools/tune/lr_curve.h"

#include <algorithm>
#include <cmath>

namespace tools::tune {

bool DivergenceWatch::add(double loss) {
  constexpr double kFactor = 0.98;
  if (!std::isfinite(loss)) return true;
  const bool first = weight_ == 1;
  weight_ *= kFactor;
  average_ = kFactor * average_ + (1 - kFactor) * loss;
  const double mean = average_ / (1 - weight_);
  lowest_ = first ? mean : std::min(lowest_, mean);
  return !first && lowest_ > 0 && mean > factor_ * lowest_;
}

size_t radius_for(size_t points) { return std::max<size_t>(1, points / 30); }

std::vector<double> smoothed(const std::vector<LrPoint>& points, size_t radius) {
  std::vector<double> means;
  for (size_t i = 0; i < points.size(); ++i) {
    const size_t near = std::min({radius, i, points.size() - 1 - i});
    double sum = 0;
    for (size_t k = i - near; k <= i + near; ++k) sum += points[k].loss;
    means.push_back(sum / static_cast<double>(2 * near + 1));
  }
  return means;
}

namespace {

// The end of the part of a curve that counts: where the loss, once it has fallen by half of its
// whole fall, has risen again by as much.
size_t end_of(const std::vector<double>& losses, size_t first) {
  const double half =
      (losses[first] -
       *std::min_element(losses.begin() + static_cast<std::ptrdiff_t>(first), losses.end())) /
      2;
  double lowest = losses[first];
  for (size_t i = first; i < losses.size(); ++i) {
    lowest = std::min(lowest, losses[i]);
    if (losses[first] - lowest >= half && losses[i] - lowest > half) return i;
  }
  return losses.size();
}

}  // namespace

std::optional<LrSuggestion> suggest(const std::vector<LrPoint>& points) {
  if (points.size() < 10) return std::nullopt;
  const std::vector<double> losses = smoothed(points, radius_for(points.size()));
  const size_t first = points.size() / 10;
  const auto lowest =
      std::min_element(losses.begin() + static_cast<std::ptrdiff_t>(first),
                       losses.begin() + static_cast<std::ptrdiff_t>(end_of(losses, first)));
  const auto last = static_cast<size_t>(lowest - losses.begin());
  LrSuggestion found;
  found.lowest = points[last].lr;
  found.fall = losses.front() - losses[last];
  double fastest = 0;
  for (size_t i = std::max<size_t>(first, 1); i < last; ++i) {
    const double slope =
        (losses[i + 1] - losses[i - 1]) / std::log(points[i + 1].lr / points[i - 1].lr);
    if (slope >= fastest) continue;
    fastest = slope;
    found.steepest = points[i].lr;
  }
  return found.steepest == 0 ? std::nullopt : std::optional(found);
}

std::vector<double> LrSuggestion::rates_to_try() const {
  const double half_decade = std::sqrt(10), first = std::min(steepest, tenth());
  std::vector<double> rates = {first};
  if (first * half_decade <= lowest) rates.push_back(first * half_decade);
  for (int i = 0; i < 4; ++i) rates.push_back((i == 0 ? first : rates.back()) / half_decade);
  return rates;
}

bool is_usable(const std::vector<LrPoint>& points, double fall) {
  if (points.size() < 2) return false;
  // A tenth of the steps at either end.
  const size_t count = std::max<size_t>(1, points.size() / 10);
  const auto mean = [&](size_t begin) {
    double sum = 0;
    for (size_t i = begin; i < begin + count; ++i) sum += points[i].loss;
    return sum / static_cast<double>(count);
  };
  return mean(0) - mean(points.size() - count) >= fall / 2;
}

}  // namespace tools::tune
