// The summary of runs, their configuration, and what is known about them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "runtime/median.h"
#include "tools/report/chart.h"
#include "tools/report/section.h"
#include "tools/report/table.h"

namespace tools::report {

namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// A number of a run, and where it was reached.
struct SummaryValue {
  double value = kNoNumber;
  plot::Unit unit = plot::Unit::kNumber;
  std::string where = {};
};

// One line of the summary: the same number of each run.
struct Quantity {
  std::string title;
  enum class Better { kNeither, kSmaller, kLarger } better = Better::kNeither;
  std::vector<SummaryValue> values = {};  // by run
};

SummaryValue last_of(const std::vector<Point>& points, plot::Unit unit) {
  return points.empty() ? SummaryValue{} : SummaryValue{points.back().y, unit, {}};
}

SummaryValue best_of(const std::vector<Point>& points, bool larger) {
  if (points.empty()) return {};
  const auto less = [](const Point& a, const Point& b) { return a.y < b.y; };
  const Point best = larger ? *std::max_element(points.begin(), points.end(), less)
                            : *std::min_element(points.begin(), points.end(), less);
  std::string where = "step " + to_text(best.x, plot::Unit::kCount);
  if (std::isfinite(best.epoch)) where = "epoch " + to_text(best.epoch, plot::Unit::kNumber);
  return {best.y, plot::Unit::kNumber, where};
}

SummaryValue median_of(const std::vector<Point>& points, plot::Unit unit) {
  if (points.empty()) return {};
  std::vector<double> values;
  for (const Point& p : points) values.push_back(p.y);
  return {runtime::median(std::move(values)), unit, "median"};
}

SummaryValue epoch_seconds(const Run& run) {
  double sum = 0;
  int count = 0;
  for (const EpochTime& epoch : run.metrics.epochs) {
    if (epoch.whole) sum += epoch.seconds, ++count;
  }
  return count == 0 ? SummaryValue{} : SummaryValue{sum / count, plot::Unit::kSeconds, "mean"};
}

// The most memory that is known of any rank.
SummaryValue memory_of(const Run& run) {
  SummaryValue most{kNoNumber, plot::Unit::kBytes, {}};
  const auto add = [&](double bytes, const char* where) {
    if (bytes > most.value || (std::isnan(most.value) && std::isfinite(bytes)))
      most.value = bytes, most.where = where;
  };
  if (run.profile) {
    for (const RankProfile& rank : run.profile->ranks) add(rank.peak_bytes, "profiled peak");
  }
  for (const Point& p : run.metrics.curve("device_memory_bytes")) add(p.y, "in use on the device");
  if (std::isfinite(most.value)) return most;
  for (const Bench& bench : run.benches) {
    for (const Comparison& c : bench.comparisons)
      if (c.kind == Comparison::Kind::kBytes) add(c.measured, "allocated by a rank");
  }
  return most;
}

template <typename Function>
Quantity quantity(const std::vector<Run>& runs, std::string title, Quantity::Better better,
                  const Function& function) {
  Quantity q{std::move(title), better};
  for (const Run& run : runs) q.values.push_back(function(run));
  return q;
}

// The validation metrics of all runs.
std::vector<std::string> validation_keys(const std::vector<Run>& runs) {
  std::set<std::string> keys;
  for (const Run& run : runs) {
    for (const auto& [key, points] : run.metrics.curves)
      if (key.starts_with("validation_")) keys.insert(key);
  }
  std::vector<std::string> list;
  for (const char* first : {"validation_loss", "validation_accuracy"}) {
    if (keys.erase(first) > 0) list.emplace_back(first);
  }
  list.insert(list.end(), keys.begin(), keys.end());
  return list;
}

void add_metrics(const std::vector<Run>& runs, std::vector<Quantity>& list) {
  using Better = Quantity::Better;
  list.push_back(quantity(runs, "last training loss", Better::kSmaller, [](const Run& run) {
    return last_of(run.metrics.curve("loss"), plot::Unit::kNumber);
  }));
  for (const std::string& key : validation_keys(runs)) {
    const bool larger = is_larger_better(key);
    std::string title = "best " + key;
    std::replace(title.begin(), title.end(), '_', ' ');
    list.push_back(
        quantity(runs, title, larger ? Better::kLarger : Better::kSmaller,
                 [&](const Run& run) { return best_of(run.metrics.curve(key), larger); }));
  }
}

std::vector<Quantity> quantities(const std::vector<Run>& runs) {
  using Better = Quantity::Better;
  std::vector<Quantity> list;
  list.push_back(quantity(runs, "steps", Better::kNeither, [](const Run& run) {
    SummaryValue value{static_cast<double>(run.metrics.steps), plot::Unit::kCount, {}};
    const double epochs = value.value / run.metrics.steps_per_epoch;
    if (std::isfinite(epochs)) value.where = to_text(epochs, plot::Unit::kNumber) + " epochs";
    return run.metrics.curves.empty() ? SummaryValue{} : value;
  }));
  add_metrics(runs, list);
  list.push_back(quantity(runs, "samples per second", Better::kLarger, [](const Run& run) {
    return median_of(run.metrics.curve("samples_per_second"), plot::Unit::kCount);
  }));
  list.push_back(quantity(runs, "time of an epoch", Better::kSmaller, epoch_seconds));
  list.push_back(quantity(runs, "training time", Better::kNeither, [](const Run& run) {
    return SummaryValue{
        run.metrics.curves.empty() ? kNoNumber : run.metrics.seconds, plot::Unit::kSeconds, {}};
  }));
  list.push_back(quantity(runs, "most memory", Better::kSmaller, memory_of));
  std::erase_if(list, [](const Quantity& q) {
    return std::all_of(q.values.begin(), q.values.end(),
                       [](const SummaryValue& v) { return std::isnan(v.value); });
  });
  return list;
}

// The best value if it is better than another one.
std::optional<double> best_value(const Quantity& q) {
  std::vector<double> known;
  for (const SummaryValue& v : q.values)
    if (std::isfinite(v.value)) known.push_back(v.value);
  if (known.size() < 2 || q.better == Quantity::Better::kNeither) return std::nullopt;
  const auto [least, most] = std::minmax_element(known.begin(), known.end());
  if (*least == *most) return std::nullopt;
  return q.better == Quantity::Better::kLarger ? *most : *least;
}

Html where_text(const SummaryValue& value) {
  if (value.where.empty() || std::isnan(value.value)) return {};
  return element("small", value.where);
}

Html cards(const std::vector<Quantity>& list) {
  Html html;
  for (const Quantity& q : list) {
    const SummaryValue& v = q.values[0];
    html +=
        element("div", element("dt", q.title) +
                           element("dd", element("b", to_text(v.value, v.unit)) + where_text(v)));
  }
  return list.empty() ? Html() : element("dl", html, {{"class", "cards"}});
}

// A row for each run, a column for each quantity.
Html comparison(const std::vector<Run>& runs, const std::vector<Quantity>& list) {
  Table table;
  table.caption = "Runs side by side";
  table.sortable = true;
  table.columns = {{"run"}};
  for (const Quantity& q : list) table.columns.push_back({q.title, true});
  for (size_t run = 0; run < runs.size(); ++run) {
    std::vector<Cell> row = {Cell(badge(runs, run))};
    for (const Quantity& q : list) {
      const SummaryValue& v = q.values[run];
      Cell cell(v.value, v.unit);
      if (std::optional<double> best = best_value(q); best && v.value == *best) {
        cell.content = element("b", cell.content) + element("small", "best", {{"class", "best"}});
      }
      cell.content += where_text(v);
      row.push_back(std::move(cell));
    }
    table.rows.push_back(std::move(row));
  }
  return to_html(table);
}

Html notes_of(const std::vector<Run>& runs) {
  Html items;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const std::string& note : runs[i].notes) {
      const Html run = runs.size() > 1 ? badge(runs, i) + Html::text(": ") : Html();
      items += element("li", run + Html::text(note));
    }
  }
  if (items.empty()) return {};
  return element("ul", items, {{"class", "notes"}, {"aria-label", "notes"}});
}

Table settings_table(const std::vector<Run>& runs, const std::string& caption) {
  Table table;
  table.caption = caption;
  table.columns = {{"key"}};
  if (runs.size() == 1) table.columns.push_back({"value"});
  for (size_t i = 0; i < runs.size() && runs.size() > 1; ++i)
    table.columns.push_back({key_of(i) + " " + runs[i].name});
  return table;
}

std::vector<Cell> settings_row(const std::vector<Run>& runs, const std::string& key) {
  std::vector<Cell> row = {Cell(element("code", breakable(key)))};
  for (const Run& run : runs) {
    const std::string value = run.settings.find(key);
    row.emplace_back(value.empty() ? Html::text("-") : element("code", value));
  }
  return row;
}

std::string section_of(const std::string& key) { return key.substr(0, key.find('.')); }

// All keys of all runs as one closed table for each section of the file.
Html all_settings(const std::vector<Run>& runs, const std::set<std::string>& differing) {
  std::vector<std::string> sections;
  for (const Run& run : runs) {
    for (const Setting& s : run.settings.all()) {
      if (std::find(sections.begin(), sections.end(), section_of(s.key)) == sections.end())
        sections.push_back(section_of(s.key));
    }
  }
  Html html;
  for (const std::string& section : sections) {
    Table table = settings_table(runs, "Configuration, section " + section);
    std::set<std::string> seen;
    for (const Run& run : runs) {
      for (const Setting& s : run.settings.all()) {
        if (section_of(s.key) != section || !seen.insert(s.key).second) continue;
        table.rows.push_back(settings_row(runs, s.key));
        if (!differing.contains(s.key)) continue;
        Cell& head = table.rows.back()[0];
        head.content = element("span", "\xE2\x89\xA0 ", {{"title", "differs"}}) + head.content;
        for (Cell& cell : table.rows.back()) cell.classes = "differs";
      }
    }
    html += element("details", element("summary", "[" + section + "]") + to_html(table));
  }
  return html;
}

// What one run has otherwise than by default.
Html changed_settings(const Run& run) {
  const Settings defaults = default_settings();
  Table table;
  table.caption = "Settings that are not the default";
  table.columns = {{"key"}, {"value"}, {"default"}};
  for (const std::string& key : changed_keys(run.settings, defaults)) {
    const std::string value = defaults.find(key);
    table.rows.push_back({Cell(element("code", breakable(key))),
                          Cell(element("code", run.settings.find(key))),
                          Cell(value.empty() ? Html::text("-") : element("code", value))});
  }
  return element("h3", "What is not the default") + to_html(table);
}

}  // namespace

std::string key_of(size_t run) {
  const std::string letter(1, static_cast<char>('A' + run % 26));
  return run < 26 ? letter : letter + std::to_string(run / 26);
}

Html badge(const std::vector<Run>& runs, size_t run) {
  if (runs.size() == 1) return Html::text(runs[run].name);
  const std::string colour = colour_class(static_cast<int>(run));
  return element("span", key_of(run), {{"class", "badge " + colour}}) +
         element("span", runs[run].name, {{"class", "run-name"}});
}

Section summary_section(const std::vector<Run>& runs) {
  if (runs.empty()) return {};
  const std::vector<Quantity> list = quantities(runs);
  const Html numbers = runs.size() == 1 ? cards(list) : comparison(runs, list);
  const bool times = std::any_of(runs.begin(), runs.end(),
                                 [](const Run& run) { return !run.metrics.epochs.empty(); });
  const Html note =
      times ? element("p", "Times are those of training steps, without validation.") : Html();
  return {"summary", "Summary", numbers + note + notes_of(runs)};
}

Section settings_section(const std::vector<Run>& runs, const std::string& id,
                         const std::string& title) {
  std::vector<const Settings*> all;
  bool any = false;
  for (const Run& run : runs) {
    all.push_back(&run.settings);
    any = any || !run.settings.all().empty();
  }
  Section section{id, title, {}};
  if (!any) return section;
  const std::vector<std::string> keys = differing_keys(all);
  if (runs.size() > 1) {
    Table table = settings_table(runs, "Settings in which the runs differ");
    for (const std::string& key : keys) table.rows.push_back(settings_row(runs, key));
    section.content += element("h3", "Differences");
    section.content +=
        keys.empty() ? element("p", "The runs have the same configuration.") : to_html(table);
    section.content += element("h3", "All settings");
  } else {
    section.content += changed_settings(runs[0]) + element("h3", "All settings");
  }
  section.content += all_settings(runs, {keys.begin(), keys.end()});
  return section;
}

Section facts_section(const std::vector<Run>& runs, const std::string& id,
                      const std::string& title) {
  Table table;
  table.caption = "Device, build and files";
  table.columns = {{""}};
  std::vector<std::string> names;
  for (size_t i = 0; i < runs.size(); ++i) {
    table.columns.push_back({runs.size() == 1 ? runs[i].name : key_of(i) + " " + runs[i].name});
    for (const Fact& fact : runs[i].facts) {
      if (std::find(names.begin(), names.end(), fact.name) == names.end())
        names.push_back(fact.name);
    }
  }
  for (const std::string& name : names) {
    std::vector<Cell> row = {Cell(name)};
    for (const Run& run : runs) {
      std::string text;
      for (const Fact& fact : run.facts)
        if (fact.name == name) text += (text.empty() ? "" : "; ") + fact.value;
      row.emplace_back(text.empty() ? "-" : text);
    }
    table.rows.push_back(std::move(row));
  }
  return {id, title, names.empty() ? Html() : to_html(table)};
}

}  // namespace tools::report
