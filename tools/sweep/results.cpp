#include "tools/sweep/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "runtime/system/atomic_file.h"

namespace tools::sweep {

namespace {

using trials::Json;
using Row = std::vector<std::string>;

std::string aligned(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.at(0).size(), 0);
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:>{}}  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

bool has_rungs(const Sweep& sweep) { return !sweep.halving.rungs.empty(); }

bool is_range(const Parameter& p) {
  return p.kind != Parameter::Kind::kValues && p.kind != Parameter::Kind::kDevices;
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
bool is_wide(const std::vector<trials::Series>& all, bool second) {
  std::set<double> values;
  for (const trials::Series& series : all)
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

std::string table_of(const Sweep& sweep, const std::vector<Record>& ranking) {
  Row head = {"trial"};
  for (const Parameter& parameter : sweep.parameters) head.push_back(parameter.key);
  if (has_rungs(sweep)) head.push_back(sweep.halving.unit);
  head.insert(head.end(), {sweep.monitor, "seconds"});
  std::vector<Row> rows = {head};
  std::string errors;
  for (const Record& r : ranking) {
    Row row = {std::to_string(r.trial)};
    for (const auto& [key, value] : r.settings) row.push_back(trials::short_text(value));
    if (has_rungs(sweep))
      row.push_back(std::to_string(sweep.halving.rungs.at(static_cast<size_t>(r.rung))));
    row.push_back(r.value ? fmt::format("{:.6g}", *r.value) : r.status);
    row.push_back(fmt::format("{:.1f}", r.seconds));
    rows.push_back(std::move(row));
    if (!r.done()) errors += fmt::format("trial {} failed: {}\n", r.trial, r.error);
  }
  return aligned(rows) + (errors.empty() ? "" : "\n" + errors);
}

trials::Plot plot_of(const Sweep& sweep, const std::vector<Record>& ranking) {
  const size_t axis = axis_of(sweep, ranking);
  const bool by_number = axis == sweep.parameters.size();
  std::map<std::string, trials::Series> series;
  for (const Record& record : ranking) {
    if (!record.value) continue;
    const std::string name = by_number ? "" : name_of(record, sweep, axis);
    const double x =
        by_number ? static_cast<double>(record.trial) : record.settings[axis].second.get<double>();
    series[name].name = name;
    series[name].points.emplace_back(x, *record.value);
  }
  trials::Plot plot{sweep.name, by_number ? "trial" : sweep.parameters[axis].key, sweep.monitor};
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
  const trials::Plot plot = plot_of(sweep, ranking);
  runtime::system::write_file((path / "results.json").string(),
                              json_of(sweep, ranking).dump(1) + "\n");
  runtime::system::write_file((path / "results.svg").string(), trials::svg_plot(plot));
  fmt::print("{}\n{}", table_of(sweep, ranking), trials::text_plot(plot));
  if (ranking.empty() || !ranking[0].done()) return;
  fmt::print("\nbest: trial {}, {} {:.6g}; {}\n\n{}", ranking[0].trial, sweep.monitor,
             *ranking[0].value, (path / ranking[0].run).string(),
             trials::toml_lines(ranking[0].settings));
}

}  // namespace tools::sweep
