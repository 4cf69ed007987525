// Reads the trials of a sweep and ranks them.
#include "tools/report/read_sweep.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "runtime/config/metrics.h"
#include "runtime/error.h"
#include "tools/report/json_input.h"
#include "tools/report/read_run.h"

namespace tools::report {

namespace {

namespace fs = std::filesystem;

constexpr char kFile[] = "sweep.jsonl";

std::string text_of(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Trial read_trial(const Fields& f, const Json& line) {
  Trial trial;
  const double number = f.required_number("trial");
  if (!(number >= 0 && number < 1e15)) f.fail("trial", "expected a number from 0");
  trial.number = static_cast<int64_t>(number);
  if (f.object("settings")) {
    for (const auto& [key, value] : line.at("settings").items())
      trial.settings.push_back({key, text_of(value)});
  }
  trial.run = f.text("run");
  trial.status = f.text("status");
  trial.error = f.text("error");
  trial.rung = f.number("rung");
  trial.value = f.number("value");
  trial.seconds = f.number("seconds");
  return trial;
}

// Whether a trial belongs before another one.
bool is_before(const Trial& a, const Trial& b, bool larger_is_better) {
  if (std::isnan(a.value) != std::isnan(b.value)) return std::isnan(b.value);
  const double rung = std::isnan(a.rung) ? 0 : a.rung, other = std::isnan(b.rung) ? 0 : b.rung;
  if (rung != other && !std::isnan(a.value)) return rung > other;
  if (std::isnan(a.value) || a.value == b.value) return a.number < b.number;
  return larger_is_better ? a.value > b.value : a.value < b.value;
}

void find_keys(Sweep& sweep) {
  std::set<std::string> seen;
  for (const Trial& trial : sweep.trials) {
    for (const Setting& s : trial.settings) {
      if (seen.insert(s.key).second) sweep.keys.push_back(s.key);
    }
  }
}

// Whether larger values are better.
bool is_maximized(const Sweep& sweep) {
  const fs::path results = sweep.folder / "results.json";
  std::error_code error;
  if (!fs::exists(results, error)) return is_larger_better(sweep.monitor);
  const Json json = read_json(results);
  const Fields f(json, results.string() + ": results");
  const std::string mode = f.text("mode");
  if (!mode.empty() && mode != "min" && mode != "max")
    f.fail("mode", "expected \"min\" or \"max\", got \"" + mode + "\"");
  return mode.empty() ? is_larger_better(sweep.monitor) : mode == "max";
}

// The text of the sweep's file is in plan.json, which sweeps of older programs do not have.
void read_file(Sweep& sweep) {
  const fs::path plan = sweep.folder / "plan.json";
  std::error_code error;
  if (!fs::exists(plan, error)) return;
  try {
    const Json json = read_json(plan);
    sweep.file = settings_of(Fields(json, plan.string()).text("sweep"), "plan.json");
  } catch (const runtime::Error& damaged) {
    sweep.notes.push_back(std::string("what was searched is left out: ") + damaged.what());
  }
}

void note_bad_lines(Sweep& sweep, const std::vector<BadLine>& bad) {
  for (const BadLine& line : bad) {
    sweep.notes.push_back(std::string(kFile) + ": line " + std::to_string(line.line) +
                          (line.last ? " is cut (the sweep was stopped or is still writing)"
                                     : " is damaged (" + line.reason + ")") +
                          " and left out");
    if (sweep.notes.size() < 10) continue;
    sweep.notes.emplace_back("there are further such lines");
    return;
  }
}

// Whether `path` lies in `folder` or below it, after links have been followed.
bool is_below(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(path, error);
  const fs::path outer = fs::weakly_canonical(folder, error);
  const auto [end, unused] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return !error && end == outer.end();
}

}  // namespace

bool is_larger_better(const std::string& metric) {
  return runtime::config::larger_field_is_better(metric).value_or(false);
}

bool is_sweep_folder(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / kFile, error);
}

Sweep read_sweep(const fs::path& folder) {
  Sweep sweep;
  sweep.folder = folder;
  const fs::path plain = folder.lexically_normal();
  sweep.name = (plain.has_filename() ? plain : plain.parent_path()).filename().string();
  std::map<int64_t, Trial> trials;
  const std::vector<BadLine> bad = read_json_lines(folder / kFile, [&](const Json& line) {
    const Fields f(line, (folder / kFile).string() + ": trial");
    if (f.has("monitor")) sweep.monitor = f.text("monitor");
    Trial trial = read_trial(f, line);
    trials.insert_or_assign(trial.number, std::move(trial));
  });
  if (trials.empty()) {
    throw runtime::DataError((folder / kFile).string() +
                             ": expected lines of JSON objects with \"trial\", got none; wait for "
                             "the first trial of the sweep, or name another folder");
  }
  note_bad_lines(sweep, bad);
  read_file(sweep);
  sweep.larger_is_better = is_maximized(sweep);
  for (auto& [number, trial] : trials) sweep.trials.push_back(std::move(trial));
  find_keys(sweep);
  std::stable_sort(sweep.trials.begin(), sweep.trials.end(), [&](const Trial& a, const Trial& b) {
    return is_before(a, b, sweep.larger_is_better);
  });
  return sweep;
}

fs::path folder_of(const Sweep& sweep, const Trial& trial) {
  if (trial.run.empty()) return {};
  for (const fs::path& path : {sweep.folder / trial.run, fs::path(trial.run),
                               sweep.folder / fs::path(trial.run).filename()}) {
    if (is_below(path, sweep.folder) && is_run_folder(path)) return path;
  }
  return {};
}

}  // namespace tools::report
