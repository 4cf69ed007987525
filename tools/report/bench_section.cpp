// Scaling, and predictions beside what was measured.
#include <algorithm>
#include <cmath>

#include "tools/report/chart.h"
#include "tools/report/section.h"
#include "tools/report/table.h"

namespace tools::report {

namespace {

// A file and the title under which it is shown.
struct ShownNumber {
  const Bench* bench;
  std::string title;
};

// The files of the runs and those of the command line.
std::vector<ShownNumber> all_benches(const std::vector<Run>& runs,
                                     const std::vector<Bench>& files) {
  std::vector<ShownNumber> all;
  for (const Run& run : runs) {
    for (const Bench& bench : run.benches) all.push_back({&bench, run.name + ", " + bench.source});
  }
  for (const Bench& bench : files) all.push_back({&bench, bench.source});
  return all;
}

Cell milliseconds(double ms) { return {ms * 1e-3, plot::Unit::kSeconds}; }

Html rows_table(const Bench& bench, const std::string& title) {
  Table table;
  table.caption = "Scaling: " + title;
  table.columns = {{"ranks"},
                   {"mesh"},
                   {"global batch", true},
                   {"step", true},
                   {"samples/s", true},
                   {"speed-up", true},
                   {"efficiency", true},
                   {"predicted", true},
                   {"computing", true},
                   {"collectives alone", true},
                   {"exposed", true},
                   {"bubble", true},
                   {"pays"}};
  for (const ScalingRow& row : bench.rows) {
    const std::string pays = row.pays ? (*row.pays ? "\xE2\x9C\x93 yes" : "\xE2\x9C\x97 no") : "-";
    table.rows.push_back(
        {Cell(row.ranks, plot::Unit::kCount), Cell(row.mesh.empty() ? "-" : row.mesh),
         Cell(row.global_batch, plot::Unit::kCount), milliseconds(row.step_ms),
         Cell(row.samples_per_second, plot::Unit::kCount), Cell(row.speed_up, plot::Unit::kNumber),
         Cell(row.efficiency, plot::Unit::kFraction),
         Cell(row.predicted_efficiency, plot::Unit::kFraction), milliseconds(row.t_comp_ms),
         milliseconds(row.t_sync_ms), milliseconds(row.exposed_ms),
         Cell(row.bubble, plot::Unit::kFraction), Cell(pays)});
  }
  return to_html(table);
}

// Measured, predicted and ideal speed-up over the number of ranks.
Html speed_up_chart(const Bench& bench, const std::string& id) {
  Chart chart;
  chart.id = id;
  chart.title = "Speed-up";
  chart.x_title = "ranks";
  chart.y_unit = plot::Unit::kNumber;
  chart.over_steps = false;
  chart.from_zero = true;
  Line measured{.name = "measured", .colour = 0, .dots = true};
  Line predicted{.name = "predicted", .colour = 1, .dots = true, .dashed = true};
  Line ideal{.name = "ideal", .colour = 7, .dashed = true};
  for (const ScalingRow& row : bench.rows) {
    if (!std::isfinite(row.ranks)) continue;
    if (std::isfinite(row.speed_up)) measured.points.push_back({row.ranks, row.speed_up});
    if (std::isfinite(row.predicted_efficiency))
      predicted.points.push_back({row.ranks, row.predicted_efficiency * row.ranks});
    ideal.points.push_back({row.ranks, row.ranks});
  }
  chart.lines = {measured, predicted, ideal};
  for (Line& line : chart.lines) {
    std::stable_sort(line.points.begin(), line.points.end(),
                     [](const Point& a, const Point& b) { return a.x < b.x; });
  }
  return bench.rows.size() < 2 ? Html() : draw(chart);
}

plot::Unit unit_of(Comparison::Kind kind) {
  switch (kind) {
    case Comparison::Kind::kBytes:
      return plot::Unit::kBytes;
    case Comparison::Kind::kFraction:
      return plot::Unit::kFraction;
    case Comparison::Kind::kSeconds:
      break;
  }
  return plot::Unit::kSeconds;
}

// "+12 %": how much more was measured than predicted.
std::string deviation(const Comparison& c) {
  if (c.predicted == 0) return "-";
  const double share = c.measured / c.predicted - 1;
  if (std::abs(share) < 5e-4) return "0 %";
  return (share > 0 ? "+" : "") + to_text(share, plot::Unit::kFraction);
}

Html comparison_table(const Bench& bench, const std::string& title) {
  Table table;
  table.caption = "Predicted and measured: " + title;
  table.columns = {{"what"}, {"predicted"}, {"measured"}, {"measured more", true}};
  for (const Comparison& c : bench.comparisons) {
    const double most = std::max({c.predicted, c.measured, 1e-300});
    const plot::Unit unit = unit_of(c.kind);
    table.rows.push_back(
        {Cell(c.what), Cell(bar(to_text(c.predicted, unit), c.predicted / most, 1)),
         Cell(bar(to_text(c.measured, unit), c.measured / most, 0)), Cell(deviation(c))});
  }
  return element("h3", title) + to_html(table);
}

}  // namespace

Section scaling_section(const std::vector<Run>& runs, const std::vector<Bench>& files) {
  Section section{"scaling", "Scaling", {}};
  for (const auto& [bench, title] : all_benches(runs, files)) {
    if (bench->rows.empty()) continue;
    std::string mode;
    if (bench->mode == "fixed_global_batch") mode = "The global batch is the same for all ranks.";
    if (bench->mode == "fixed_batch_per_rank") mode = "The batch of each rank is the same.";
    const std::string id = "chart-scaling-" + std::to_string(section.content.str().size());
    const Html chart = speed_up_chart(*bench, id);
    section.content += element("h3", title) + element("p", mode) + rows_table(*bench, title);
    if (!chart.empty()) section.content += element("div", chart, {{"class", "charts"}});
  }
  return section;
}

Section prediction_section(const std::vector<Run>& runs, const std::vector<Bench>& files) {
  Section section{"prediction", "Predicted and measured", {}};
  for (const auto& [bench, title] : all_benches(runs, files)) {
    if (!bench->comparisons.empty()) section.content += comparison_table(*bench, title);
  }
  return section;
}

}  // namespace tools::report
