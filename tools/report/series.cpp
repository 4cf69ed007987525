#include "tools/report/series.h"

#include <algorithm>

namespace tools::report {

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
    kept.push_back(*least);
    if (largest != least) kept.push_back(*largest);
  }
  kept.push_back(points.back());
  return kept;
}

}  // namespace tools::report
