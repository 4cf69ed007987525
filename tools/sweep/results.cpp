// Prints the ranking, draws the plot, and writes the files of a sweep.
#include "tools/sweep/results.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "runtime/system/atomic_file.h"
#include "runtime/terminal/table.h"
#include "runtime/terminal/terminal.h"

namespace tools::sweep {

namespace {

using trials::Json;
using Row = std::vector<std::string>;

bool has_rungs(const Sweep& sweep) { return !sweep.halving.rungs.empty(); }

bool is_range(const Parameter& p) {
  return p.kind != Parameter::Kind::kValues && p.kind != Parameter::Kind::kDevices;
}

// Times go first where the terminal is too narrow, then the settings from the last one on.
std::vector<runtime::terminal::Column> table_columns(const Sweep& sweep) {
  using Kind = runtime::terminal::Column::Kind;
  const auto keep = runtime::terminal::Keep::kEnd;  // of a long key
  std::vector<runtime::terminal::Column> columns = {{"trial", Kind::kNumber}};
  int rank = static_cast<int>(sweep.parameters.size()) + 2;
  for (const Parameter& parameter : sweep.parameters)
    columns.push_back({parameter.key, Kind::kNumber, rank--, keep});
  if (has_rungs(sweep)) columns.push_back({sweep.halving.unit, Kind::kNumber, 2});
  columns.push_back({sweep.monitor, Kind::kNumber, 0, keep});
  columns.push_back({"seconds", Kind::kNumber, 1});
  return columns;
}

// The number of different values of a parameter if all are numbers, else 0.
size_t numbers_of(const std::vector<Record>& ranking, size_t parameter) {
  std::set<double> values;
  for (const Record& record : ranking) {
    const Json& value = record.settings.at(parameter).second;
    if (!value.is_number()) return 0;
    values.insert(value.get<double>());
  }
  return values.size();
}

// The parameter of the horizontal axis; the number of parameters if there is none.
size_t axis_of(const Sweep& sweep, const std::vector<Record>& ranking) {
  size_t found = sweep.parameters.size(), most = 1;
  for (size_t i = 0; i < sweep.parameters.size(); ++i) {
    const size_t values = numbers_of(ranking, i);
    if (values > most) found = i;
    most = std::max(most, values);
  }
  return found;
}

std::string name_of(const Record& record, const Sweep& sweep, size_t without) {
  std::string name;
  for (size_t i = 0; i < record.settings.size(); ++i) {
    // A sampled number would give every trial a series of its own.
    if (i == without || is_range(sweep.parameters[i])) continue;
    const auto& [key, value] = record.settings[i];
    name += fmt::format("{}{} {}", name.empty() ? "" : ", ", key.substr(key.rfind('.') + 1),
                        trials::short_text(value));
  }
  return name;
}

// Whether the numbers of an axis are read best on a logarithmic one.
bool is_wide(const std::vector<plot::Series>& all, bool second) {
  std::set<double> values;
  for (const plot::Series& series : all)
    for (const auto& [x, y] : series.points) values.insert(second ? y : x);
  return !values.empty() && *values.begin() > 0 && *values.rbegin() > 50 * *values.begin();
}

Json json_of(const Sweep& sweep, const std::vector<Record>& ranking) {
  Json j = {{"sweep", sweep.name},
            {"config", sweep.config},
            {"monitor", sweep.monitor},
            {"mode", sweep.maximize ? "max" : "min"},
            {"trials", Json::array()}};
  for (const Record& record : ranking) j["trials"].push_back(record.to_json());
  return j;
}

}  // namespace

std::string table_of(const Sweep& sweep, const std::vector<Record>& ranking, int columns) {
  runtime::terminal::Table table(table_columns(sweep));
  std::string errors;
  for (const Record& r : ranking) {
    Row row = {std::to_string(r.trial)};
    for (const auto& [key, value] : r.settings) row.push_back(trials::short_text(value));
    if (has_rungs(sweep))
      row.push_back(std::to_string(sweep.halving.rungs.at(static_cast<size_t>(r.rung))));
    row.push_back(r.value ? fmt::format("{:.6g}", *r.value) : r.status);
    row.push_back(fmt::format("{:.1f}", r.seconds));
    table.add(std::move(row));
    if (!r.done()) errors += fmt::format("trial {} failed: {}\n", r.trial, r.error);
  }
  return table.text(columns) +
         (errors.empty() ? "" : "\n" + runtime::terminal::folded(errors, columns));
}

plot::Plot plot_of(const Sweep& sweep, const std::vector<Record>& ranking) {
  const size_t axis = axis_of(sweep, ranking);
  const bool by_number = axis == sweep.parameters.size();
  std::map<std::string, plot::Series> series;
  for (const Record& record : ranking) {
    if (!record.value) continue;
    const std::string name = by_number ? "" : name_of(record, sweep, axis);
    const double x =
        by_number ? static_cast<double>(record.trial) : record.settings[axis].second.get<double>();
    series[name].name = name;
    series[name].points.emplace_back(x, *record.value);
  }
  plot::Plot plot{sweep.name, by_number ? "trial" : sweep.parameters[axis].key, sweep.monitor};
  for (auto& [name, one] : series) {
    std::sort(one.points.begin(), one.points.end());
    plot.series.push_back(std::move(one));
  }
  plot.log_x = is_wide(plot.series, false);
  plot.log_y = is_wide(plot.series, true);
  return plot;
}

void show_results(const Sweep& sweep, const std::string& folder,
                  const std::vector<Record>& ranking) {
  const std::filesystem::path path = folder;
  const plot::Plot plot = plot_of(sweep, ranking);
  runtime::system::write_file((path / "results.json").string(),
                              json_of(sweep, ranking).dump(1) + "\n");
  runtime::system::write_file((path / "results.svg").string(), plot::svg_plot(plot));
  const int columns = runtime::terminal::columns(STDOUT_FILENO);
  fmt::print("{}\n{}", table_of(sweep, ranking, columns), plot::text_plot(plot, columns));
  if (ranking.empty() || !ranking[0].done()) return;
  runtime::terminal::print_folded(fmt::format("\nbest: trial {}, {} {:.6g}; {}\n\n",
                                              ranking[0].trial, sweep.monitor, *ranking[0].value,
                                              (path / ranking[0].run).string()));
  fmt::print("{}", trials::toml_lines(ranking[0].settings));
}

}  // namespace tools::sweep
