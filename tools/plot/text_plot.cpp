// Draws axes, marks and keys of a plot with characters.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "runtime/terminal/text.h"
#include "tools/plot/plot.h"

namespace tools::plot {

Axis axis_of(const Plot& plot, bool second) {
  constexpr int kTicks = 5;
  Range range;
  bool whole = true;
  for (const Series& series : plot.series) {
    for (const auto& point : series.points) {
      if (!has_point(plot, point)) continue;
      const double value = second ? point.second : point.first;
      range.add(value);
      whole = whole && value == std::floor(value);
    }
  }
  if (range.empty()) return {};
  return (second ? plot.log_y : plot.log_x)
             ? logarithmic_axis(range)
             : linear_axis(range, kTicks, whole ? Unit::kCount : Unit::kNumber);
}

namespace {

constexpr std::string_view kMarks =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr char kOther = '.';  // of the series for which there is no mark left
constexpr size_t kLeastMargin = 10, kMostMargin = 24;
constexpr int kLeastWidth = 12;

char mark_of(const Plot& plot, size_t series) {
  if (plot.series.size() == 1) return 'o';
  return series < kMarks.size() ? kMarks[series] : kOther;
}

// The characters of a text plot, the upper row first.
std::vector<std::string> draw(const Plot& plot, const Axis& x, const Axis& y, int width,
                              int height) {
  std::vector<std::string> rows(static_cast<size_t>(height),
                                std::string(static_cast<size_t>(width), ' '));
  for (size_t s = 0; s < plot.series.size(); ++s) {
    const char mark = mark_of(plot, s);
    for (const auto& point : plot.series[s].points) {
      if (!has_point(plot, point)) continue;
      const auto column = static_cast<size_t>(std::lround(x.place(point.first) * (width - 1)));
      const auto row = static_cast<size_t>(std::lround((1 - y.place(point.second)) * (height - 1)));
      char& cell = rows[row][column];
      cell = cell == ' ' || cell == mark ? mark : '*';
    }
  }
  return rows;
}

// The horizontal axis, and a line with its labels: each label stands below the '+' of its place,
// as far as the ends of the axis let it.
std::pair<std::string, std::string> axis_below(const Axis& x, int width) {
  const auto all = static_cast<size_t>(width);
  std::string axis(all, '-'), labels(all, ' ');
  size_t free_from = 0;
  for (const double tick : x.ticks) {
    const std::string text = fmt::format("{:.4g}", tick);
    const auto at = static_cast<size_t>(std::lround(x.place(tick) * (width - 1)));
    const size_t most = all - std::min(text.size(), all);
    const size_t begin = std::min(at - std::min(at, (text.size() - 1) / 2), most);
    if (begin < free_from || begin + text.size() > all) continue;
    axis[at] = '+';
    labels.replace(begin, text.size(), text);
    free_from = begin + text.size() + 1;
  }
  return {axis, labels.substr(0, labels.find_last_not_of(' ') + 1)};
}

// What the letters stand for.
std::vector<std::string> legend(const Plot& plot) {
  std::vector<std::string> lines;
  const size_t named = std::min(plot.series.size(), kMarks.size());
  for (size_t s = 0; plot.series.size() > 1 && s < named; ++s)
    lines.push_back(fmt::format("{}: {}", kMarks[s], plot.series[s].name));
  if (plot.series.size() > named)
    lines.push_back(fmt::format("{}: {} more series", kOther, plot.series.size() - named));
  return lines;
}

}  // namespace

std::string text_plot(const Plot& plot, int columns, int width, int height) {
  const Axis x = axis_of(plot, false), y = axis_of(plot, true);
  if (x.ticks.empty()) return "";
  const size_t third = columns > 0 ? static_cast<size_t>(columns) / 3 : kMostMargin;
  const size_t margin = std::clamp(runtime::terminal::width(plot.y_label), kLeastMargin,
                                   std::clamp(third, kLeastMargin, kMostMargin));
  if (columns > 0)
    width = std::clamp(columns - static_cast<int>(margin) - 2, kLeastWidth,
                       std::max(width, kLeastWidth));
  std::string text;
  const auto line = [&](const std::string& label, const std::string& content) {
    const std::string left = runtime::terminal::shortened(label, margin);
    const std::string all = runtime::terminal::padded(left, margin, /*right=*/true) + " " + content;
    const std::string fitting =
        columns > 0 ? runtime::terminal::shortened(all, static_cast<size_t>(columns)) : all;
    text += fitting.substr(0, fitting.find_last_not_of(' ') + 1) + "\n";
  };
  line(plot.y_label, "| " + plot.title);
  const std::vector<std::string> rows = draw(plot, x, y, width, height);
  for (size_t row = 0; row < rows.size(); ++row) {
    const bool labelled = row % 5 == 0 || row + 1 == rows.size();
    const double place = 1 - static_cast<double>(row) / static_cast<double>(height - 1);
    line(labelled ? fmt::format("{:.4g}", y.at(place)) : "", "|" + rows[row]);
  }
  const auto [axis, labels] = axis_below(x, width);
  line("", "+" + axis);
  line("", " " + labels);
  const size_t name = runtime::terminal::width(plot.x_label), all = static_cast<size_t>(width);
  line("", " " + std::string((all - std::min(name, all)) / 2, ' ') + plot.x_label);
  for (const std::string& series : legend(plot)) line("", " " + series);
  return text;
}

}  // namespace tools::plot
