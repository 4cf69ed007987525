// Moves labels that would overlap apart, as little as needed.
#include "tools/report/end_labels.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace tools::report {

namespace {

// What the text of a label takes of the height and of the width of the smallest drawing.
constexpr double kApart = 0.075, kWide = 0.07;

// Labels that touch: they stand as a block, whose mean place is that of their ends.
struct Block {
  double sum = 0;  // of where the first label would stand for each end to have its label beside it
  double count = 0;
  double first() const { return sum / count; }
};

// `members`: the ends that are near each other in x, the lowest first.
void place(const std::vector<CurveEnd>& ends, const std::vector<size_t>& members,
           std::vector<double>& places) {
  const auto count = static_cast<double>(members.size());
  const double apart = count > 1 ? std::min(kApart, 1 / (count - 1)) : kApart;
  std::vector<Block> blocks;
  for (size_t i = 0; i < members.size(); ++i) {
    blocks.push_back({ends[members[i]].y - static_cast<double>(i) * apart, 1});
    while (blocks.size() > 1 && blocks.back().first() <= blocks[blocks.size() - 2].first()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().sum += last.sum;
      blocks.back().count += last.count;
    }
  }
  size_t i = 0;
  for (const Block& block : blocks) {
    for (double k = 0; k < block.count; ++k, ++i) {
      const double first = std::clamp(block.first(), 0.0, 1 - (count - 1) * apart);
      places[members[i]] = first + static_cast<double>(i) * apart;
    }
  }
}

}  // namespace

std::vector<double> places_of_labels(const std::vector<CurveEnd>& ends) {
  std::vector<size_t> order(ends.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return ends[a].x < ends[b].x; });
  std::vector<double> places(ends.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    for (end = begin + 1;
         end < order.size() && ends[order[end]].x < ends[order[end - 1]].x + kWide;)
      ++end;
    std::vector<size_t> members(order.begin() + static_cast<std::ptrdiff_t>(begin),
                                order.begin() + static_cast<std::ptrdiff_t>(end));
    std::stable_sort(members.begin(), members.end(),
                     [&](size_t a, size_t b) { return ends[a].y < ends[b].y; });
    place(ends, members, places);
  }
  return places;
}

}  // namespace tools::report
