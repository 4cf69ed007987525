#include "tools/trials/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tools::trials {

namespace {

// The step between round numbers (1, 2 or 5 times a power of ten) of which about five fit.
double round_step(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / 5)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (range / (power * factor) <= 6) return power * factor;
  return power * 10;
}

}  // namespace

double Axis::scaled(double value) const { return log_ ? std::log10(value) : value; }

Axis::Axis(const Plot& plot, bool second)
    : log_(second ? plot.log_y : plot.log_x),
      low_(std::numeric_limits<double>::infinity()),
      high_(-low_) {
  for (const Series& series : plot.series) {
    for (const auto& [x, y] : series.points) {
      if ((plot.log_x && x <= 0) || (plot.log_y && y <= 0)) continue;
      const double value = second ? y : x;
      low_ = std::min(low_, scaled(value));
      high_ = std::max(high_, scaled(value));
      whole_ = whole_ && value == std::floor(value);
    }
  }
  if (low_ != high_) return;
  const double margin = low_ == 0 ? 1 : std::abs(low_) / 10;
  low_ -= margin;
  high_ += margin;
}

double Axis::place(double value) const { return (scaled(value) - low_) / (high_ - low_); }

double Axis::at(double place) const {
  const double value = low_ + place * (high_ - low_);
  return log_ ? std::pow(10, value) : value;
}

std::vector<double> Axis::ticks() const {
  std::vector<double> list;
  if (empty()) return list;
  if (log_) {
    for (double power = std::floor(low_); power <= high_; ++power) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double tick = factor * std::pow(10, power), where = place(tick);
        if (where >= 0 && where <= 1 && (factor == 1 || high_ - low_ < 2)) list.push_back(tick);
      }
    }
    return list;
  }
  const double first = at(0), last = at(1), least = whole_ ? 1 : 0;
  const double step = std::max(round_step(last - first), least);
  for (double i = std::ceil(first / step); i * step <= last * (1 + 1e-12) + step * 1e-9; ++i)
    list.push_back(i * step);
  return list;
}

namespace {

// The characters of a text plot, the upper row first.
std::vector<std::string> draw(const Plot& plot, const Axis& x, const Axis& y, int width,
                              int height) {
  std::vector<std::string> rows(static_cast<size_t>(height),
                                std::string(static_cast<size_t>(width), ' '));
  for (size_t s = 0; s < plot.series.size(); ++s) {
    const char mark = plot.series.size() == 1 ? 'o' : static_cast<char>('a' + s % 26);
    for (const auto& point : plot.series[s].points) {
      if (!has_point(x, y, point)) continue;
      const auto column = static_cast<size_t>(std::lround(x.place(point.first) * (width - 1)));
      const auto row = static_cast<size_t>(std::lround((1 - y.place(point.second)) * (height - 1)));
      char& cell = rows[row][column];
      cell = cell == ' ' || cell == mark ? mark : '*';
    }
  }
  return rows;
}

// A line with the labels of the horizontal axis under their places.
std::string labels_below(const Axis& x, int width) {
  std::string line(static_cast<size_t>(width) + 12, ' ');
  size_t free_from = 0;
  for (const double tick : x.ticks()) {
    const std::string text = fmt::format("{:.4g}", tick);
    const auto at = static_cast<size_t>(std::lround(x.place(tick) * (width - 1)));
    if (at < free_from) continue;
    line.replace(at, text.size(), text);
    free_from = at + text.size() + 1;
  }
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

}  // namespace

std::string text_plot(const Plot& plot, int width, int height) {
  const Axis x(plot, false), y(plot, true);
  if (x.empty()) return "";
  std::string text = fmt::format("{:>10} | {}\n", plot.y_label, plot.title);
  const std::vector<std::string> rows = draw(plot, x, y, width, height);
  for (size_t row = 0; row < rows.size(); ++row) {
    const bool labelled = row % 5 == 0 || row + 1 == rows.size();
    const double place = 1 - static_cast<double>(row) / static_cast<double>(height - 1);
    text += fmt::format("{:>10} |{}\n", labelled ? fmt::format("{:.4g}", y.at(place)) : "",
                        rows[row].substr(0, rows[row].find_last_not_of(' ') + 1));
  }
  text +=
      fmt::format("{:>10} +{}\n{:>12}{}  {}\n", "", std::string(static_cast<size_t>(width), '-'),
                  "", labels_below(x, width), plot.x_label);
  for (size_t s = 0; plot.series.size() > 1 && s < plot.series.size(); ++s)
    text += fmt::format("{:>12}{}: {}\n", "", static_cast<char>('a' + s % 26), plot.series[s].name);
  return text;
}

}  // namespace tools::trials
