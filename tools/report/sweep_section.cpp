// The trials of a sweep against their settings.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "tools/plot/axis.h"
#include "tools/plot/units.h"
#include "tools/report/chart.h"
#include "tools/report/scale.h"
#include "tools/report/section.h"
#include "tools/report/table.h"

namespace tools::report {

namespace {

constexpr size_t kMostDrawn = 1000;  // trials; the best are drawn
constexpr size_t kMostColumns = 12;  // settings that are drawn
constexpr size_t kMostRows = 5000;   // trials in the table
constexpr int kQualities = 5;        // colours from the best to the worst trials

std::string value_of(const Trial& trial, const std::string& key) {
  for (const Setting& s : trial.settings)
    if (s.key == key) return s.value;
  return "";
}

// The number that a setting is.
std::optional<double> number_in(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return std::nullopt;
  return number;
}

// A setting, of which a number has about four digits.
std::string short_text(const std::string& text) {
  const std::optional<double> number = number_in(text);
  return number ? to_text(*number, plot::Unit::kNumber) : unquoted(text);
}

// The trials with a value, the best first, as far as they are drawn.
std::vector<const Trial*> drawn_trials(const Sweep& sweep) {
  std::vector<const Trial*> drawn;
  for (const Trial& trial : sweep.trials)
    if (std::isfinite(trial.value) && drawn.size() < kMostDrawn) drawn.push_back(&trial);
  return drawn;
}

// One axis of the drawings: a setting, or the value.
struct Dimension {
  std::string title;
  std::vector<std::string> values;  // by drawn trial
  Scale scale;
  Dimension(std::string name, std::vector<std::string> all)
      : title(std::move(name)), values(std::move(all)), scale(values) {}
};

Dimension value_column(const Sweep& sweep, const std::vector<const Trial*>& trials) {
  std::vector<std::string> values;
  for (const Trial* trial : trials) values.push_back(plot::exact_text(trial->value));
  return {sweep.monitor.empty() ? "value" : sweep.monitor, std::move(values)};
}

std::vector<Dimension> setting_columns(const Sweep& sweep,
                                       const std::vector<const Trial*>& trials) {
  std::vector<Dimension> columns;
  for (const std::string& key : sweep.keys) {
    std::vector<std::string> values;
    for (const Trial* trial : trials) values.push_back(value_of(*trial, key));
    Dimension column(key, std::move(values));
    if (column.scale.varies() && columns.size() < kMostColumns)
      columns.push_back(std::move(column));
  }
  return columns;
}

// The class of the colour of the i-th best of `count` trials.
std::string quality(size_t i, size_t count) {
  return "q" + std::to_string(i * kQualities / std::max<size_t>(count, 1));
}

std::string describe(const Sweep& sweep, const Trial& trial) {
  std::string text = "trial " + std::to_string(trial.number) + ": " + sweep.monitor + " " +
                     to_text(trial.value, plot::Unit::kNumber);
  for (const Setting& s : trial.settings) text += "\n" + s.key + " = " + unquoted(s.value);
  return text;
}

std::string place_text(double x, double y) {
  char text[60];
  std::snprintf(text, sizeof(text), "%.5g %.5g", x * 1000, (1 - y) * 1000);
  return text;
}

// A path of one trial that shows what the trial is when it is pointed at.
Html trial_path(const Sweep& sweep, const Trial& trial, const std::string& d,
                const std::string& classes) {
  const std::string text = describe(sweep, trial);
  return element("path", element("title", text),
                 {{"class", classes},
                  {"d", d},
                  {"data-tip", text},
                  {"data-trial", std::to_string(trial.number)}});
}

Html svg(const Html& content, const std::string& label) {
  return element("svg", content,
                 {{"viewBox", "0 0 1000 1000"},
                  {"preserveAspectRatio", "none"},
                  {"role", "img"},
                  {"aria-label", label}});
}

Html labels(const Scale& scale, const char* classes, const char* side) {
  Html html;
  for (const Scale::Label& label : scale.labels())
    html += element("span", label.text,
                    {{"style", std::string(side) + ":" + plot::percent_of_side(label.place)}});
  return element("div", html, {{"class", classes}, {"aria-hidden", "true"}});
}

// What the colours mean.
Html colour_scale() {
  Html swatches;
  for (int i = 0; i < kQualities; ++i)
    swatches += element("i", Html(), {{"class", "q" + std::to_string(i)}});
  return element("p", Html::text("best trials ") + swatches + Html::text(" worst; thick: the best"),
                 {{"class", "scale"}});
}

// One curve for each trial through its settings to its value.
Html parallel_coordinates(const Sweep& sweep, const std::vector<const Trial*>& trials,
                          const std::vector<Dimension>& columns) {
  const auto x_of = [&](size_t c) {
    return (static_cast<double>(c) + 0.5) / static_cast<double>(columns.size());
  };
  const auto count = static_cast<double>(columns.size());
  Html paths, axes;
  for (size_t c = 0; c < columns.size(); ++c) {
    paths += element(
        "path", Html(),
        {{"class", "axis"}, {"d", "M" + place_text(x_of(c), 0) + "L" + place_text(x_of(c), 1)}});
    axes += element(
        "div",
        element("b", breakable(columns[c].title)) + labels(columns[c].scale, "y-labels", "bottom"),
        {{"class", "parallel-axis"},
         {"style", "left:" + plot::percent_of_side(x_of(c) - 0.5 / count) +
                       ";width:" + plot::percent_of_side(1 / count)}});
  }
  for (size_t i = trials.size(); i-- > 0;) {
    std::string d;
    for (size_t c = 0; c < columns.size(); ++c) {
      const double y = columns[c].scale.place(columns[c].values[i]);
      if (std::isfinite(y)) d += (d.empty() ? "M" : "L") + place_text(x_of(c), y);
    }
    const std::string best = i == 0 ? " best-trial" : "";
    paths += trial_path(sweep, *trials[i], d, "trial " + quality(i, trials.size()) + best);
  }
  const Html inner =
      element("div",
              svg(paths, "Each trial as a line through its settings to its " +
                             columns.back().title + "; the table has all values.") +
                  axes,
              {{"class", "parallel"},
               {"style", "min-width:" + std::to_string(columns.size() * 8) + "rem"}});
  return element("h3", "All trials") + colour_scale() +
         element("div", inner,
                 {{"class", "scroll plain"},
                  {"tabindex", "0"},
                  {"role", "region"},
                  {"aria-label", "settings and value of all trials"}});
}

// The value over one setting.
Html scatter(const Sweep& sweep, const std::vector<const Trial*>& trials, const Dimension& setting,
             const Dimension& value) {
  Html dots;
  for (size_t i = trials.size(); i-- > 0;) {
    const double x = setting.scale.place(setting.values[i]);
    const double y = value.scale.place(value.values[i]);
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    const std::string best = i == 0 ? " best-trial" : "";
    dots += trial_path(sweep, *trials[i], "M" + place_text(x, y) + "h0",
                       "dots trial " + quality(i, trials.size()) + best);
  }
  std::string grid;
  for (const Scale::Label& label : value.scale.labels())
    grid += "M" + place_text(0, label.place) + "H1000";
  const Html drawing =
      svg(element("path", Html(), {{"class", "grid"}, {"d", grid}}) + dots,
          value.title + " over " + setting.title + ", one dot a trial; the table has all values.");
  const Html plot = element("div",
                            drawing + labels(value.scale, "y-labels", "bottom") +
                                labels(setting.scale, "x-labels", "left"),
                            {{"class", "plot"}});
  return element("figure",
                 element("figcaption", element("h3", value.title + " over " + setting.title)) +
                     plot + element("p", setting.title, {{"class", "x-title"}}),
                 {{"class", "scatter"}});
}

Html progress_chart(const Sweep& sweep, const std::string& id) {
  std::map<int64_t, double> values;
  for (const Trial& trial : sweep.trials)
    if (std::isfinite(trial.value)) values[trial.number] = trial.value;
  Line all{.name = "trials", .colour = 0, .connected = false};
  Line best{.name = "best so far", .colour = 1};
  for (const auto& [number, value] : values) {
    const auto x = static_cast<double>(number);
    all.points.push_back({x, value});
    double reached = best.points.empty() ? value : best.points.back().y;
    reached = sweep.larger_is_better ? std::max(reached, value) : std::min(reached, value);
    best.points.push_back({x, reached});
  }
  Chart chart;
  chart.id = id;
  chart.title = (sweep.monitor.empty() ? "Value" : sweep.monitor) + " by trial";
  chart.x_title = "trial";
  chart.over_steps = false;
  chart.stepped = true;
  chart.lines = {best, all};
  return draw(chart);
}

// A number is whole when it is pointed at.
Cell setting_cell(const std::string& text) {
  if (text.empty()) return Cell("-");
  Cell cell(element("span", short_text(text), {{"title", unquoted(text)}}));
  if (const std::optional<double> number = number_in(text)) cell.order = *number;
  return cell;
}

Html trial_table(const Sweep& sweep) {
  Table table;
  table.caption = "Trials of " + sweep.name + ", the best first";
  table.sortable = true;
  table.columns = {{"trial"}, {sweep.monitor.empty() ? "value" : sweep.monitor, true}};
  for (const std::string& key : sweep.keys) table.columns.push_back({key, true});
  for (const char* title : {"rung", "time"}) table.columns.push_back({title, true});
  table.columns.push_back({"status"});
  table.columns.push_back({"run"});
  for (const Trial& trial : sweep.trials) {
    if (table.rows.size() == kMostRows) break;
    std::vector<Cell> row = {Cell(std::to_string(trial.number)),
                             Cell(trial.value, plot::Unit::kNumber)};
    row[0].order = static_cast<double>(trial.number);
    if (table.rows.empty() && std::isfinite(trial.value))
      row[1].content += element("small", "best", {{"class", "best"}});
    for (const std::string& key : sweep.keys) {
      const std::string text = value_of(trial, key);
      row.push_back(setting_cell(text));
    }
    row.emplace_back(trial.rung, plot::Unit::kNumber);
    row.emplace_back(trial.seconds, plot::Unit::kSeconds);
    const Html why =
        trial.error.empty() ? Html() : element("small", trial.error, {{"class", "why"}});
    row.emplace_back(Html::text(trial.status.empty() ? "-" : trial.status) + why);
    row.emplace_back(trial.run.empty() ? "-" : trial.run);
    table.rows.push_back(std::move(row));
  }
  return element("h3", "Table of trials") + to_html(table);
}

Html card(const std::string& title, const std::string& value, const std::string& below,
          const std::vector<Attribute>& attributes = {}) {
  const Html content = element("b", value) + element("small", below);
  return element("div", element("dt", title) + element("dd", content), attributes);
}

// "33 done, 7 failed".
std::string count_by_status(const Sweep& sweep) {
  std::map<std::string, int> by_status;
  for (const Trial& trial : sweep.trials)
    ++by_status[trial.status.empty() ? "without status" : trial.status];
  std::string counts;
  for (const auto& [status, count] : by_status)
    counts += (counts.empty() ? "" : ", ") + std::to_string(count) + " " + status;
  return counts;
}

Html cards(const Sweep& sweep) {
  const Trial& best = sweep.trials[0];
  Html html = card("trials", std::to_string(sweep.trials.size()), count_by_status(sweep));
  if (std::isfinite(best.value)) {
    std::string settings;
    for (const Setting& s : best.settings)
      settings += (settings.empty() ? "" : ", ") + s.key + " = " + short_text(s.value);
    html += card("best " + (sweep.monitor.empty() ? "value" : sweep.monitor),
                 to_text(best.value, plot::Unit::kNumber),
                 "trial " + std::to_string(best.number) + ": " + settings, {{"class", "wide"}});
  }
  return element("dl", html, {{"class", "cards"}});
}

Html notes_of(const Sweep& sweep, size_t with_value) {
  Html items;
  for (const std::string& note : sweep.notes) items += element("li", note);
  if (with_value > kMostDrawn)
    items += element("li", "the drawings show the " + std::to_string(kMostDrawn) + " best of " +
                               std::to_string(with_value) + " trials with a value");
  if (sweep.trials.size() > kMostRows)
    items += element("li", "the table shows the " + std::to_string(kMostRows) + " best of " +
                               std::to_string(sweep.trials.size()) + " trials");
  return items.empty() ? Html() : element("ul", items, {{"class", "notes"}});
}

// "log_uniform [0.0001, 0.3]" of a key of [parameters]; "-" where the sweep's file is not known.
std::string searched_text(const Sweep& sweep, const std::string& key) {
  const std::string full = "parameters." + key;
  for (const Setting& s : sweep.file.all()) {
    if (s.key == full || s.key == full + ".values") return s.value;
    if (s.key.starts_with(full + ".")) return s.key.substr(full.size() + 1) + " " + s.value;
  }
  return "-";
}

// The different values of a key, by their number and the least and the largest of them.
Cell tried_cell(const Sweep& sweep, const std::string& key) {
  std::set<std::string> values;
  plot::Range range;
  for (const Trial& trial : sweep.trials) {
    const std::string text = value_of(trial, key);
    values.insert(text);
    if (const std::optional<double> number = number_in(text)) range.add(*number);
  }
  std::string text = std::to_string(values.size()) + (values.size() == 1 ? " value" : " values");
  if (!range.empty() && values.size() > 1)
    text += ", " + to_text(range.low, plot::Unit::kNumber) + " to " +
            to_text(range.high, plot::Unit::kNumber);
  return Cell(text);
}

}  // namespace

Section search_section(const Sweep& sweep, const std::string& id) {
  Table searched, how;
  searched.caption = "What was searched";
  searched.columns = {
      {"key"}, {"searched"}, {"tried"}, {"trial " + std::to_string(sweep.trials[0].number)}};
  for (const std::string& key : sweep.keys) {
    const std::string best = value_of(sweep.trials[0], key);
    searched.rows.push_back({Cell(element("code", breakable(key))),
                             Cell(element("code", searched_text(sweep, key))),
                             tried_cell(sweep, key), Cell(element("code", short_text(best)))});
  }
  how.caption = "The other keys of the sweep's file";
  how.columns = {{"key"}, {"value"}};
  for (const Setting& s : sweep.file.all()) {
    if (!s.key.starts_with("parameters."))
      how.rows.push_back({Cell(element("code", breakable(s.key))), Cell(element("code", s.value))});
  }
  Html content = searched.rows.empty() ? Html() : to_html(searched);
  if (!how.rows.empty()) content += element("h3", "How it was searched") + to_html(how);
  return {id, "What was searched", content};
}

Section sweep_section(const Sweep& sweep, const std::string& id) {
  const std::vector<const Trial*> trials = drawn_trials(sweep);
  const auto with_value =
      std::count_if(sweep.trials.begin(), sweep.trials.end(),
                    [](const Trial& trial) { return std::isfinite(trial.value); });
  Html content = cards(sweep) + notes_of(sweep, static_cast<size_t>(with_value));
  std::vector<Dimension> columns = setting_columns(sweep, trials);
  const Dimension value = value_column(sweep, trials);
  Html charts = progress_chart(sweep, id + "-progress");
  for (const Dimension& setting : columns) charts += scatter(sweep, trials, setting, value);
  columns.push_back(value);
  if (!trials.empty() && columns.size() > 1)
    content += parallel_coordinates(sweep, trials, columns);
  if (!charts.empty()) content += element("div", charts, {{"class", "charts"}});
  content += trial_table(sweep);
  return {id, "Sweep " + sweep.name, content};
}

}  // namespace tools::report
