// Draws the same plot as SVG.
#include <fmt/format.h>

#include <array>

#include "tools/plot/markup.h"
#include "tools/plot/plot.h"

namespace tools::plot {

namespace {

// Pixels: the drawing between the axes, and the room around it.
constexpr double kLeft = 80, kTop = 40, kWidth = 620, kHeight = 360, kRight = 200, kBottom = 60;
// Okabe and Ito's colours, which people with colour blindness can tell apart.
constexpr std::array<const char*, 8> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#e69f00", "#56b4e9", "#999999", "#000000"};

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

double left(const Axis& x, double value) { return kLeft + x.place(value) * kWidth; }
double top(const Axis& y, double value) { return kTop + (1 - y.place(value)) * kHeight; }

std::string axes(const Plot& plot, const Axis& x, const Axis& y) {
  std::string text = fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#444\"/>\n", kLeft,
      kTop, kWidth, kHeight);
  for (const double tick : x.ticks) {
    const double at = left(x, tick);
    text +=
        fmt::format("<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#ddd\"/>\n",
                    at, kTop, kTop + kHeight);
    text += text_at(at, kTop + kHeight + 18, "middle", fmt::format("{:.4g}", tick));
  }
  for (const double tick : y.ticks) {
    const double at = top(y, tick);
    text +=
        fmt::format("<line x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\" stroke=\"#ddd\"/>\n",
                    kLeft, at, kLeft + kWidth);
    text += text_at(kLeft - 8, at + 4, "end", fmt::format("{:.4g}", tick));
  }
  text += text_at(kLeft + kWidth / 2, kTop + kHeight + 42, "middle", plot.x_label);
  return text + text_at(kLeft, kTop - 8, "start", plot.y_label);
}

std::string drawn(const Plot& plot, size_t index, const Axis& x, const Axis& y) {
  const Series& series = plot.series[index];
  const char* const colour = kColours[index % kColours.size()];
  std::string line, marks;
  for (const auto& point : series.points) {
    if (!has_point(plot, point)) continue;
    const double at = left(x, point.first), height = top(y, point.second);
    line += fmt::format("{}{:.1f},{:.1f}", line.empty() ? "" : " ", at, height);
    marks += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}: {:.6g}, "
        "{:.6g}</title></circle>\n",
        at, height, colour, escaped(series.name), point.first, point.second);
  }
  std::string text =
      fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", line, colour) + marks;
  if (plot.series.size() < 2) return text;
  const double row = kTop + 14 + 18 * static_cast<double>(index);
  text += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"{}\"/>\n", kLeft + kWidth + 16,
                      row - 4, colour);
  return text + text_at(kLeft + kWidth + 26, row, "start", series.name);
}

}  // namespace

std::string svg_plot(const Plot& plot) {
  const double width = kLeft + kWidth + kRight, height = kTop + kHeight + kBottom;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" "
      "fill=\"white\"/>\n",
      width, height);
  text += text_at(kLeft + kWidth / 2, 18, "middle", plot.title);
  const Axis x = axis_of(plot, false), y = axis_of(plot, true);
  text += axes(plot, x, y);
  for (size_t i = 0; i < plot.series.size(); ++i) text += drawn(plot, i, x, y);
  return text + "</svg>\n";
}

}  // namespace tools::plot
