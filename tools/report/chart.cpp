// Draws curves as SVG, with axes, keys and a table of values.
#include "tools/report/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tools/plot/axis.h"
#include "tools/plot/units.h"
#include "tools/report/end_labels.h"
#include "tools/report/table.h"

namespace tools::report {

namespace {

// The drawing has kSide units in each direction, whatever its size on the screen.
constexpr double kSide = 1000;
constexpr int kXTicks = 5, kYTicks = 5;
constexpr size_t kValueRows = 25;

std::string printed(const char* format, double a, double b = 0) {
  char text[80];
  std::snprintf(text, sizeof(text), format, a, b);
  return text;
}

// Where a share of the side is drawn, to a hundredth of a unit.
double on_paper(double share) { return std::round(share * kSide * 100) / 100 + 0.0; }

struct Axes {
  plot::Axis x, y;
  std::string point(double px, double py) const {
    return printed("%.7g %.7g", on_paper(x.place(px)), on_paper(1 - y.place(py)));
  }
};

Axes axes_of(const Chart& chart) {
  plot::Range x, y;
  if (chart.from_zero) y.add(0);
  for (const Line& line : chart.lines) {
    for (const Point& p : line.points) x.add(p.x), y.add(p.y);
  }
  return {plot::linear_axis(x, kXTicks, chart.x_unit),
          plot::rounded_axis(y, kYTicks, chart.y_unit)};
}

bool is_decimated(const Line& line) {
  return !line.points.empty() && std::isfinite(line.points.front().mean);
}

// `member`: what is drawn of each point, its y or the mean of those that it stands for.
std::string path_of(const Chart& chart, const Line& line, const Axes& axes, double Point::*member) {
  std::string path;
  double before = 0;
  for (const Point& p : line.points) {
    if (chart.stepped && !path.empty()) path += "L" + axes.point(p.x, before);
    path += (path.empty() ? "M" : "L") + axes.point(p.x, p.*member);
    before = p.*member;
  }
  return path;
}

// Dots are lines of no length with round ends, which keep their shape when the drawing is
// stretched.
std::string dots_of(const Line& line, const Axes& axes) {
  std::string path;
  for (const Point& p : line.points) path += "M" + axes.point(p.x, p.y) + "h0";
  return path;
}

Html path(const std::string& d, const std::string& classes, const std::string& title = "") {
  return element("path", title.empty() ? Html() : element("title", title),
                 {{"class", classes}, {"d", d}});
}

bool has_dots(const Line& line) { return line.dots || !line.connected || line.points.size() == 1; }

Html curves(const Chart& chart, const Axes& axes) {
  Html html;
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    const Line& line = chart.lines[i];
    const std::string title = line.name + ": last " + to_text(line.points.back().y, chart.y_unit);
    const std::string classes =
        "line " + colour_class(line.colour) + (line.dashed ? " dashed" : "");
    Html parts;
    if (line.connected && is_decimated(line))
      parts += path(path_of(chart, line, axes, &Point::y), "line raw " + colour_class(line.colour));
    if (line.connected) {
      const auto member = is_decimated(line) ? &Point::mean : &Point::y;
      parts += path(path_of(chart, line, axes, member), classes, title);
    }
    if (has_dots(line))
      parts += path(dots_of(line, axes), "dots " + colour_class(line.colour), title);
    html += element("g", parts, {{"data-line", std::to_string(i)}});
  }
  return html;
}

Html grid(const Axes& axes) {
  std::string d;
  for (const double tick : axes.y.ticks)
    d += "M0 " + printed("%.7g", on_paper(1 - axes.y.place(tick))) + "H" + printed("%g", kSide);
  return path(d, "grid");
}

// What a reader who does not see the drawing gets.
std::string description(const Chart& chart) {
  std::string text = chart.title + " over " + chart.x_title + ".";
  for (const Line& line : chart.lines) {
    const auto [least, most] =
        std::minmax_element(line.points.begin(), line.points.end(),
                            [](const Point& a, const Point& b) { return a.y < b.y; });
    text += " " + line.name + ": from " + to_text(line.points.front().y, chart.y_unit) + " to " +
            to_text(line.points.back().y, chart.y_unit) + ", least " +
            to_text(least->y, chart.y_unit) + ", largest " + to_text(most->y, chart.y_unit) + ".";
  }
  return text;
}

// A curve with a key, where it ends, and where its key stands.
struct EndLabel {
  const Line* line;
  CurveEnd end;
  double at = 0;
};

std::vector<EndLabel> ends_of(const Chart& chart, const Axes& axes) {
  std::vector<EndLabel> labels;
  std::vector<CurveEnd> ends;
  for (const Line& line : chart.lines) {
    if (line.key.empty()) continue;
    const Point& last = line.points.back();
    ends.push_back({axes.x.place(last.x), axes.y.place(is_decimated(line) ? last.mean : last.y)});
    labels.push_back({&line, ends.back()});
  }
  const std::vector<double> places = places_of_labels(ends);
  for (size_t i = 0; i < labels.size(); ++i) labels[i].at = places[i];
  return labels;
}

// Lines from the ends of curves to keys that do not stand beside them.
Html leaders(const std::vector<EndLabel>& ends) {
  constexpr double kBeside = 0.02, kLength = 0.012;
  Html html;
  for (const EndLabel& end : ends) {
    if (std::abs(end.at - end.end.y) <= kBeside) continue;
    const std::string d = "M" + printed("%.7g %.7g", on_paper(end.end.x), on_paper(1 - end.end.y)) +
                          "L" +
                          printed("%.7g %.7g", on_paper(end.end.x + kLength), on_paper(1 - end.at));
    html += path(d, "leader " + colour_class(end.line->colour));
  }
  return element("g", html, {{"class", "leaders"}});
}

Html drawing(const Chart& chart, const Axes& axes, const std::vector<EndLabel>& ends) {
  return element(
      "svg", grid(axes) + element("g", curves(chart, axes), {{"class", "curves"}}) + leaders(ends),
      {{"viewBox", "0 0 1000 1000"},
       {"preserveAspectRatio", "none"},
       {"role", "img"},
       {"aria-label", description(chart)}});
}

Html labels(const plot::Axis& axis, plot::Unit unit, const char* classes, const char* side) {
  Html html;
  for (const double tick : axis.ticks)
    html += element("span", to_label(tick, unit, axis.step),
                    {{"style", std::string(side) + ":" + plot::percent_of_side(axis.place(tick))}});
  return element("div", html, {{"class", classes}, {"aria-hidden", "true"}});
}

Html end_labels(const std::vector<EndLabel>& ends) {
  Html html;
  for (const EndLabel& end : ends)
    html += element("span", end.line->key,
                    {{"class", colour_class(end.line->colour)},
                     {"style", "left:" + plot::percent_of_side(end.end.x) +
                                   ";bottom:" + plot::percent_of_side(end.at)}});
  return element("div", html, {{"class", "ends"}, {"aria-hidden", "true"}});
}

Html legend(const Chart& chart) {
  if (chart.lines.size() < 2 && chart.lines[0].key.empty()) return {};
  Html items;
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    const Line& line = chart.lines[i];
    const std::string classes = "sample " + colour_class(line.colour) +
                                (line.dashed ? " dashed" : "") +
                                (line.connected ? "" : " unconnected");
    Html sample = element("span", line.key, {{"class", classes}, {"aria-hidden", "true"}});
    items += element(
        "li",
        element("button", sample + Html::text(line.name),
                {{"type", "button"}, {"data-line", std::to_string(i)}, {"aria-pressed", "true"}}));
  }
  return element("ul", items, {{"class", "legend"}});
}

// Some of the points as a table, for readers who cannot or do not want to see the curve.
Html values(const Chart& chart) {
  Table table;
  table.caption = chart.title;
  table.columns = {{"curve"}, {chart.x_title, true}, {"value", true}};
  for (const Line& line : chart.lines) {
    const size_t count = line.points.size();
    const size_t rows = std::min(count, std::max<size_t>(2, kValueRows / chart.lines.size()));
    for (size_t i = 0; i < rows; ++i) {
      const Point& p = line.points[rows < 2 ? 0 : i * (count - 1) / (rows - 1)];
      table.rows.push_back({Cell(line.name), Cell(p.x, chart.x_unit), Cell(p.y, chart.y_unit)});
    }
  }
  return element("details", element("summary", "Values") + to_html(table), {{"class", "values"}});
}

// Rounded to what the screen can show, so that the page stays small.
double rounded(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.7g", value);
  return std::strtod(text, nullptr);
}

nlohmann::ordered_json number_or_null(double value) {
  if (!std::isfinite(value)) return nullptr;
  return rounded(value);
}

std::string data_of(const Chart& chart) {
  nlohmann::ordered_json json;
  json["x"] = name_of(chart.x_unit);
  json["y"] = name_of(chart.y_unit);
  json["over_steps"] = chart.over_steps;
  json["from_zero"] = chart.from_zero;
  json["stepped"] = chart.stepped;
  for (const Line& line : chart.lines) {
    nlohmann::ordered_json j = {{"name", line.name},
                                {"key", line.key},
                                {"dots", has_dots(line)},
                                {"connected", line.connected}};
    for (const Point& p : line.points) {
      j["step"].push_back(number_or_null(p.x));
      j["value"].push_back(number_or_null(p.y));
      if (is_decimated(line)) j["mean"].push_back(number_or_null(p.mean));
      if (!chart.over_steps) continue;
      j["epoch"].push_back(number_or_null(p.epoch));
      j["time"].push_back(number_or_null(p.seconds));
    }
    json["lines"].push_back(std::move(j));
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Html caption(const Chart& chart) {
  const Html log = element("button", "log",
                           {{"type", "button"},
                            {"class", "log needs-script"},
                            {"aria-pressed", "false"},
                            {"title", "logarithmic axis"},
                            {"aria-label", "logarithmic axis of " + chart.title},
                            {"hidden"}});
  return element("figcaption", element("h3", chart.title) + log);
}

}  // namespace

std::string colour_class(int colour) { return "c" + std::to_string(colour % kColours); }

Html draw(const Chart& original) {
  Chart chart = original;
  std::erase_if(chart.lines, [](const Line& line) { return line.points.empty(); });
  if (chart.lines.empty()) return {};
  for (Line& line : chart.lines) line.points = decimate(line.points, chart.most_points);
  const Axes axes = axes_of(chart);
  const std::vector<EndLabel> ends = ends_of(chart, axes);
  const Html plot =
      element("div",
              drawing(chart, axes, ends) + labels(axes.y, chart.y_unit, "y-labels", "bottom") +
                  labels(axes.x, chart.x_unit, "x-labels", "left") + end_labels(ends),
              {{"class", "plot"}});
  return element("figure",
                 caption(chart) + legend(chart) + plot +
                     element("p", chart.x_title, {{"class", "x-title"}}) +
                     json_script(data_of(chart)) + values(chart),
                 {{"class", "chart"}, {"id", chart.id}});
}

}  // namespace tools::report
