// Reduces long curves to fewer points without losing peaks.
#include "tools/report/series.h"

#include <algorithm>
#include <numeric>

namespace tools::report {

namespace {

// Divides first, so that large values do not become infinite.
double mean_of(std::vector<Point>::const_iterator begin, std::vector<Point>::const_iterator end) {
  const auto count = static_cast<double>(end - begin);
  return std::accumulate(begin, end, 0.0,
                         [&](double sum, const Point& p) { return sum + p.y / count; });
}

}  // namespace

std::vector<Point> decimate(const std::vector<Point>& points, size_t most) {
  most = std::max<size_t>(most, 4);
  if (points.size() <= most) return points;
  const size_t runs = (most - 2) / 2;
  const size_t inner = points.size() - 2;
  std::vector<Point> kept = {points.front()};
  for (size_t i = 0; i < runs; ++i) {
    const auto begin = points.begin() + 1 + static_cast<std::ptrdiff_t>(i * inner / runs);
    const auto end = points.begin() + 1 + static_cast<std::ptrdiff_t>((i + 1) * inner / runs);
    auto [least, largest] =
        std::minmax_element(begin, end, [](const Point& a, const Point& b) { return a.y < b.y; });
    if (largest < least) std::swap(least, largest);
    const double mean = mean_of(begin, end);
    kept.push_back(*least);
    kept.back().mean = mean;
    if (largest == least) continue;
    kept.push_back(*largest);
    kept.back().mean = mean;
  }
  kept.push_back(points.back());
  kept.front().mean = kept[1].mean;
  kept.back().mean = kept[kept.size() - 2].mean;
  return kept;
}

}  // namespace tools::report
