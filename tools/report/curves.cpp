// Curves of metrics, speed and resources.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <set>

#include "tools/report/chart.h"
#include "tools/report/section.h"
#include "tools/report/table.h"

namespace tools::report {

namespace {

constexpr char kValidation[] = "validation_";
constexpr size_t kMostClasses = 100;  // of a table of confusion
// All lines of a chart together have about this many points.
constexpr size_t kPointsOfChart = 6000;

// How a key of metrics.jsonl is shown.
struct ShownKey {
  const char* key;
  const char* title;
  plot::Unit unit = plot::Unit::kNumber;
  bool from_zero = false;
};

// The keys of the section about speed, in its order. All others are metrics.
constexpr std::array<ShownKey, 10> kSpeed = {{
    {"lr", "Learning rate", plot::Unit::kNumber, true},
    {"samples_per_second", "Samples per second", plot::Unit::kCount, true},
    {"tokens_per_second", "Tokens per second", plot::Unit::kCount, true},
    {"mfu", "Model FLOP utilisation (MFU)", plot::Unit::kFraction, true},
    {"epoch_seconds", "Seconds per epoch, with validation", plot::Unit::kSeconds, true},
    {"device_memory_bytes", "Device memory in use", plot::Unit::kBytes, true},
    {"device_utilisation", "Device utilisation, percent", plot::Unit::kNumber, true},
    {"device_power_watts", "Device power, watts", plot::Unit::kNumber, true},
    {"loss_scale", "Scale of the loss", plot::Unit::kNumber, true},
    {"skipped_steps", "Skipped steps", plot::Unit::kCount, true},
}};
// Keys that are no curve: they are what curves are drawn over.
const std::set<std::string> kNoCurves = {"seconds", "time"};

bool is_speed(const std::string& key) {
  return kNoCurves.contains(key) ||
         std::any_of(kSpeed.begin(), kSpeed.end(), [&](const ShownKey& s) { return key == s.key; });
}

// "validation_top5_accuracy" -> "Validation top5 accuracy".
std::string title_of(std::string key) {
  if (key == "loss") return "Training loss";
  std::replace(key.begin(), key.end(), '_', ' ');
  if (!key.empty() && key[0] >= 'a' && key[0] <= 'z') key[0] = static_cast<char>(key[0] - 32);
  return key;
}

// An identifier of HTML for any key.
std::string id_of(const std::string& key) {
  std::string id = "-chart-";
  for (const char c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    id += plain || c == '_' ? c : '-';
  }
  return id;
}

// The keys of all runs: loss first, then validation_loss, then the others by name.
std::vector<std::string> metric_keys(const std::vector<Run>& runs) {
  std::set<std::string> all;
  for (const Run& run : runs) {
    for (const auto& [key, points] : run.metrics.curves) {
      if (!is_speed(key)) all.insert(key);
    }
  }
  std::vector<std::string> keys;
  for (const char* first : {"loss", "validation_loss", "validation_accuracy"}) {
    if (all.erase(first) > 0) keys.emplace_back(first);
  }
  keys.insert(keys.end(), all.begin(), all.end());
  return keys;
}

// One line for each run that has the curve.
Chart chart_of(const std::vector<Run>& runs, const std::string& key, const std::string& title) {
  Chart chart;
  chart.id = id_of(key);
  chart.title = title;
  chart.most_points = std::clamp<size_t>(kPointsOfChart / runs.size(), 100, 2000);
  for (size_t i = 0; i < runs.size(); ++i) {
    const bool validation = key.starts_with(kValidation);
    chart.lines.push_back({.name = runs.size() > 1 ? runs[i].name : title,
                           .key = runs.size() > 1 ? key_of(i) : "",
                           .colour = static_cast<int>(i),
                           .dots = validation && runs[i].metrics.curve(key).size() <= 200,
                           .points = runs[i].metrics.curve(key)});
  }
  return chart;
}

// With one run its training and validation curves lie over each other, which shows overfitting.
void join_validation(Chart& chart, const Run& run, const std::string& key) {
  const std::vector<Point>& points = run.metrics.curve(kValidation + key);
  if (points.empty() || chart.lines[0].points.empty()) return;
  chart.title = key == "loss" ? "Loss" : title_of(key);
  chart.lines[0].name = "training";
  chart.lines.push_back({.name = "validation",
                         .colour = 1,
                         .dots = points.size() <= 200,
                         .dashed = true,
                         .points = points});
}

Html epoch_chart(const std::vector<Run>& runs) {
  Chart chart;
  chart.id = "speed-chart-epoch-seconds";
  chart.title = "Seconds per epoch, without validation";
  chart.x_title = "epoch";
  chart.y_unit = plot::Unit::kSeconds;
  chart.over_steps = false;
  chart.from_zero = true;
  for (size_t i = 0; i < runs.size(); ++i) {
    Line line{.name = runs[i].name,
              .key = runs.size() > 1 ? key_of(i) : "",
              .colour = static_cast<int>(i),
              .dots = true};
    for (const EpochTime& epoch : runs[i].metrics.epochs) {
      if (epoch.whole) line.points.push_back({static_cast<double>(epoch.epoch + 1), epoch.seconds});
    }
    chart.lines.push_back(std::move(line));
  }
  return draw(chart);
}

// The share of a class that was predicted as another one, with the number of samples.
Cell confusion_cell(double count, double of_class) {
  Cell cell(count, plot::Unit::kCount);
  char style[40];
  const double share = of_class > 0 ? std::clamp(count / of_class, 0.0, 1.0) : 0;
  std::snprintf(style, sizeof(style), "--share:%.3f", share);
  cell.content = element("span", cell.content,
                         {{"class", "heat"},
                          {"style", style},
                          {"title", to_text(share, plot::Unit::kFraction) + " of the class"}});
  return cell;
}

// Which classes are taken for which, after the last validation that says it.
Html confusion_table(const std::vector<Run>& runs, size_t index) {
  const Metrics& metrics = runs[index].metrics;
  const size_t classes = metrics.confusion.size();
  if (classes == 0 || classes > kMostClasses) return {};
  Table table;
  table.caption = "Samples by true and predicted class";
  table.columns = {{"true class"}};
  for (size_t i = 0; i < classes; ++i) table.columns.push_back({std::to_string(i), true});
  for (size_t i = 0; i < classes; ++i) {
    const std::vector<double>& row = metrics.confusion[i];
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    std::vector<Cell> cells = {Cell(std::to_string(i))};
    for (const double count : row) cells.push_back(confusion_cell(count, sum));
    table.rows.push_back(std::move(cells));
  }
  const std::string title =
      "Confusion after step " + to_text(metrics.confusion_step, plot::Unit::kCount);
  const Html of_run = runs.size() > 1 ? Html::text(": ") + badge(runs, index) : Html();
  return element("h3", Html::text(title) + of_run) +
         element("p", "A row is a true class, a column a predicted one.") + to_html(table);
}

Html grid_of(const Html& charts) {
  return charts.empty() ? Html() : element("div", charts, {{"class", "charts"}});
}

}  // namespace

Section curves_section(const std::vector<Run>& runs, const std::string& id,
                       const std::string& title) {
  Html charts;
  std::set<std::string> drawn;
  for (const std::string& key : metric_keys(runs)) {
    if (!drawn.insert(key).second) continue;
    Chart chart = chart_of(runs, key, title_of(key));
    const std::string partner = kValidation + key;
    if (runs.size() == 1 && !runs[0].metrics.curve(partner).empty()) {
      join_validation(chart, runs[0], key);
      drawn.insert(partner);
    }
    chart.id = id + chart.id;
    charts += draw(chart);
  }
  Html confusions;
  for (size_t i = 0; i < runs.size(); ++i) confusions += confusion_table(runs, i);
  return {id, title, grid_of(charts) + confusions};
}

Section speed_section(const std::vector<Run>& runs) {
  Html charts;
  for (const ShownKey& shown : kSpeed) {
    Chart chart = chart_of(runs, shown.key, shown.title);
    chart.y_unit = shown.unit;
    chart.from_zero = shown.from_zero;
    chart.id = "speed" + chart.id;
    charts += draw(chart);
  }
  charts += epoch_chart(runs);
  return {"speed", "Learning rate, speed and memory", grid_of(charts)};
}

}  // namespace tools::report
