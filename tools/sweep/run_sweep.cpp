// Starts trials as processors become free, records how they end, and goes on with the next rung.
#include "tools/sweep/run_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "runtime/error.h"
#include "runtime/launch/cores.h"
#include "runtime/terminal/status_line.h"
#include "tools/sweep/monitor.h"
#include "tools/sweep/rungs.h"
#include "tools/trials/pool.h"
#include "tools/trials/program.h"

namespace tools::sweep {

namespace {

namespace fs = std::filesystem;
using trials::Json;

// The processors of each of `count` runs at the same time: equal numbers of cores, so that the
// threads of a run, and with them the rounding of its sums, do not depend on its place. Empty lists
// if there are fewer cores than runs; the system then shares them.
std::vector<std::vector<int>> shares_of_cores(size_t count) {
  std::vector<std::vector<int>> shares(count);
  const runtime::launch::Cores cores = runtime::launch::allowed_cores();
  const size_t each = cores.size() / count;
  for (size_t i = 0; count > 1 && i < count; ++i) {
    for (size_t core = i * each; core < (i + 1) * each; ++core)
      shares[i].insert(shares[i].end(), cores[core].begin(), cores[core].end());
  }
  return shares;
}

// A validation at the end of each rung, where the file does not say when to validate.
trials::Settings validation_of(const Sweep& sweep) {
  if (sweep.halving.unit != "steps") return {};
  for (const auto& [key, value] : sweep.set)
    if (key.starts_with("validation.every_")) return {};
  int64_t every = 0;
  for (const int64_t rung : sweep.halving.rungs) every = std::gcd(every, rung);
  return {{"validation.every_steps", every}};
}

trials::Settings device_of(const std::string& device) {
  const size_t colon = device.find(':');
  trials::Settings settings = {{"device.backend", device.substr(0, colon)}};
  if (colon != std::string::npos)
    settings.emplace_back("device.index", std::atoi(device.c_str() + colon + 1));
  return settings;
}

std::string text_of(const Trial& trial) {
  std::string text;
  for (const auto& [key, value] : trial.settings)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key, trials::short_text(value));
  return text;
}

// How long a run is: {"steps", 500} or {"epochs", 10}; {"", 0} if nothing says it.
using Length = std::pair<std::string, int64_t>;

// The length that a run has written into its folder when it began.
Length length_of(const std::string& run_folder) {
  std::ifstream file(run_folder + "/config.toml");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    const runtime::config::Value config = runtime::config::parse_toml(text, "config.toml");
    for (const char* unit : {"steps", "epochs"}) {
      if (const double length = trials::number_of(config, "training", unit); length > 0)
        return {unit, static_cast<int64_t>(length)};
    }
  } catch (const runtime::Error&) {  // the run itself says what is wrong with it
  }
  return {};
}

// "step 120/500, loss 0.531" of a line that a run has printed; "" if it is not about a step.
std::string progress_of(const std::string& line, const Length& length) {
  const Json j = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object() || !j.contains("step")) return "";
  const auto field = [&](const char* name) {
    const bool measured = length.first == std::string(name) + "s";
    return fmt::format("{} {}{}", name, j.value(name, int64_t{0}),
                       measured ? fmt::format("/{}", length.second) : "");
  };
  std::string text = length.first == "epochs" ? field("epoch") + ", " : "";
  text += field("step");
  if (j.contains("loss") && j["loss"].is_number())
    text += fmt::format(", loss {:.4g}", j["loss"].get<double>());
  return text;
}

// The runs of one rung.
class Rung {
 public:
  Rung(const Sweep& sweep, const std::vector<Trial>& trials, SweepFolder& folder, int64_t rung,
       runtime::terminal::StatusLine& line)
      : sweep_(sweep),
        trials_(trials),
        folder_(folder),
        rung_(rung),
        line_(line),
        pool_(trials::runtime_program()),
        shares_(shares_of_cores(static_cast<size_t>(sweep.parallel))) {
    for (size_t slot = 0; slot < shares_.size(); ++slot) free_.push_back(slot);
  }

  // Returns the signal that ended it, 0: all have a record now.
  int run(const std::vector<int64_t>& numbers) {
    std::deque<int64_t> waiting;
    for (const int64_t trial : numbers) {
      const Record* const record = folder_.records().find(trial, rung_);
      if (record != nullptr && record->done()) continue;
      if (record != nullptr && rung_ == 0) forget_run(trial);
      waiting.push_back(trial);
    }
    total_ = numbers.size();
    finished_ = total_ - waiting.size();
    while (pool_.signal() == 0 && (!waiting.empty() || pool_.running() > 0)) {
      for (; !waiting.empty() && !free_.empty(); waiting.pop_front()) start(waiting.front());
      take(*pool_.wait());
    }
    while (const std::optional<trials::Ended> ended = pool_.wait()) take(*ended);
    return pool_.signal();
  }

 private:
  // A run that has failed may have been of another configuration, and begins anew.
  void forget_run(int64_t trial) const {
    std::error_code ignored;
    fs::remove_all(run_folder(trial), ignored);
  }

  struct Running {
    int64_t trial = 0;
    size_t slot = 0;
  };

  // What the run in a slot has told of itself, and of how much.
  struct Told {
    std::string progress = {};
    Length length = {};
  };

  std::string run_folder(int64_t trial) const {
    return (fs::path(folder_.path()) / SweepFolder::run_of(trial)).string();
  }

  void start(int64_t trial) {
    const size_t slot = free_.front();
    free_.pop_front();
    trials::Task task;
    task.name = fmt::format("trial {}", trial);
    task.arguments =
        arguments_of(sweep_, trials_.at(static_cast<size_t>(trial)), rung_, run_folder(trial));
    if (!sweep_.devices.empty())
      trials::add_settings(task.arguments, device_of(sweep_.devices[slot % sweep_.devices.size()]));
    task.timeout_s = sweep_.timeout_s;
    task.log = run_folder(trial) + ".log";
    task.processors = shares_[slot];
    told_[slot] = {"begins"};
    if (!sweep_.halving.rungs.empty())
      told_[slot].length = {sweep_.halving.unit,
                            sweep_.halving.rungs.at(static_cast<size_t>(rung_))};
    task.on_line = [this, slot, folder = run_folder(trial)](const std::string& text) {
      listen(told_[slot], folder, text);
      return true;
    };
    running_[pool_.start(std::move(task))] = {trial, slot};
    line_.progress(progress());
  }

  void listen(Told& told, const std::string& folder, const std::string& text) {
    if (told.length.second == 0) told.length = length_of(folder);
    const std::string now = progress_of(text, told.length);
    if (now.empty()) return;
    told.progress = now;
    line_.progress(progress());
  }

  // "[2/12] trial 2: step 120/500, loss 0.531; trial 3: begins".
  std::string progress() const {
    std::string text = fmt::format("[{}/{}]", finished_, total_);
    for (const auto& [id, run] : running_)
      text += fmt::format("{} trial {}: {}", text.back() == ']' ? "" : ";", run.trial,
                          told_[run.slot].progress);
    return text;
  }

  void take(const trials::Ended& ended) {
    const Running run = running_.at(ended.id);
    running_.erase(ended.id);
    free_.push_back(run.slot);
    // A run that was stopped has saved itself, and goes on when the sweep does.
    if (ended.stopped && ended.exit_code != 0) return;
    const Record record = record_of(run.trial, ended);
    folder_.records().add(record);
    line_.clear();
    line_.print(fmt::format("[{}/{}] trial {}: {}: {}", ++finished_, total_, run.trial,
                            text_of(trials_[static_cast<size_t>(run.trial)]),
                            record.value ? fmt::format("{} {:.6g}, {:.1f} s", sweep_.monitor,
                                                       *record.value, record.seconds)
                                         : "failed: " + record.error));
  }

  Record record_of(int64_t trial, const trials::Ended& ended) const {
    Record record;
    record.trial = trial;
    record.settings = trials_[static_cast<size_t>(trial)].settings;
    record.run = SweepFolder::run_of(trial);
    record.rung = rung_;
    record.monitor = sweep_.monitor;
    record.seconds = ended.seconds;
    record.status = "failed";
    if (ended.timed_out) {
      record.error = fmt::format("not done after {:.0f} s (timeout_s)", ended.seconds);
    } else if (ended.signal != 0) {
      record.error = fmt::format("ended by signal {}: {}", ended.signal, ended.error);
    } else if (ended.exit_code != 0) {
      record.error = fmt::format("exit code {}: {}", ended.exit_code, ended.error);
    } else {
      take_value(record, trial);
    }
    return record;
  }

  void take_value(Record& record, int64_t trial) const {
    try {
      record.value = value_of(sweep_, run_folder(trial));
      record.status = "done";
    } catch (const runtime::DataError& error) {
      record.error = error.what();
    }
  }

  const Sweep& sweep_;
  const std::vector<Trial>& trials_;
  SweepFolder& folder_;
  const int64_t rung_;
  runtime::terminal::StatusLine& line_;
  trials::Pool pool_;
  const std::vector<std::vector<int>> shares_;
  std::vector<Told> told_ = std::vector<Told>(shares_.size());  // by slot
  std::deque<size_t> free_;
  std::map<int, Running> running_;
  size_t total_ = 0, finished_ = 0;
};

// So many trials are checked whatever they are; of those behind them, only the ones that bring a
// value of a list that no trial before has.
constexpr size_t kAllChecked = 1000;

bool has_new_value(const Sweep& sweep, const Trial& trial, std::set<std::string>& seen) {
  bool is_new = false;
  for (size_t i = 0; i < sweep.parameters.size(); ++i) {
    const Parameter::Kind kind = sweep.parameters[i].kind;
    if (kind != Parameter::Kind::kValues && kind != Parameter::Kind::kDevices) continue;
    const auto& [key, value] = trial.settings[i];
    is_new |= seen.insert(key + "=" + value.dump()).second;
  }
  return is_new;
}

// The configuration of a trial with its settings, as commands take it that do not train.
std::vector<std::string> checked_arguments(const Sweep& sweep, const Trial& trial) {
  std::vector<std::string> arguments = arguments_of(sweep, trial, 0, "run");
  const auto resume = std::find(arguments.begin(), arguments.end(), "--resume");
  arguments.erase(resume, resume + 2);
  arguments.erase(arguments.begin());
  return arguments;
}

// Checks the command line of a trial as `runtime config check` does.
void check(const Sweep& sweep, const Trial& trial, size_t number, const std::string& path) {
  std::vector<std::string> arguments = checked_arguments(sweep, trial);
  arguments.insert(arguments.begin(), {"config", "check"});
  try {
    trials::output_of(arguments);
  } catch (const runtime::Error& error) {
    // The file of the sweep has the key, not the option.
    constexpr std::string_view kOption = "--set ";
    std::string what = error.what();
    if (what.starts_with(kOption)) what.erase(0, kOption.size());
    throw runtime::Error(error.exit_code(),
                         fmt::format("{}: trial {} ({}): {}", path, number, text_of(trial), what));
  }
}

// The settings of a trial may change what is measured, but most sweeps have only one answer.
void check_monitor(const Sweep& sweep, const Trial& trial, const std::string& path) {
  std::vector<std::string> arguments = checked_arguments(sweep, trial);
  arguments.insert(arguments.begin(), {"config", "show"});
  const std::string why = why_not_measured(
      sweep.monitor, runtime::config::parse_toml(trials::output_of(arguments), sweep.config));
  if (why.empty()) return;
  throw runtime::ConfigurationError(
      fmt::format("{}: monitor = \"{}\" is never measured: {}", path, sweep.monitor, why));
}

}  // namespace

std::vector<std::string> arguments_of(const Sweep& sweep, const Trial& trial, int64_t rung,
                                      const std::string& run_folder) {
  std::vector<std::string> arguments = {"train", sweep.config, "--resume", "auto"};
  const std::vector<int64_t>& rungs = sweep.halving.rungs;
  trials::add_settings(arguments, validation_of(sweep));
  trials::add_settings(arguments, sweep.set);
  trials::add_settings(arguments, trial.settings);
  if (!rungs.empty())
    trials::add_settings(arguments,
                         {{"training." + sweep.halving.unit, rungs.at(static_cast<size_t>(rung))}});
  // overwrite: what a killed run has left without a checkpoint is of no use.
  trials::add_settings(arguments, {{"job.dump_folder", run_folder},
                                   {"job.overwrite", true},
                                   {"metrics.jsonl", true},
                                   {"metrics.progress", "lines"}});
  return arguments;
}

void check_trials(const Sweep& sweep, const std::vector<Trial>& trials, const std::string& path) {
  std::set<std::string> seen;
  runtime::terminal::StatusLine line;
  for (size_t number = 0; number < trials.size(); ++number) {
    line.progress(fmt::format("checking trial {} of {}", number, trials.size()));
    const bool is_new = has_new_value(sweep, trials[number], seen);
    if (number < kAllChecked || is_new) check(sweep, trials[number], number, path);
  }
  if (!trials.empty()) check_monitor(sweep, trials[0], path);
}

double value_of(const Sweep& sweep, const std::string& run_folder) {
  const std::string path = run_folder + "/metrics.jsonl";
  std::ifstream file(path);
  std::optional<double> value;
  for (std::string line; std::getline(file, line);) {
    const Json j = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!j.is_object() || !j.contains(sweep.monitor) || !j[sweep.monitor].is_number()) continue;
    const double now = j[sweep.monitor];
    const bool better = !value || (sweep.maximize ? now > *value : now < *value);
    if (better || !sweep.take_best) value = now;
  }
  if (value) return *value;
  throw runtime::DataError(
      path + ": no line has a number \"" + sweep.monitor +
      "\"; set monitor to a field that the runs report, or [validation] so that it is measured");
}

int run_trials(const Sweep& sweep, const std::vector<Trial>& trials, SweepFolder& folder) {
  std::vector<int64_t> numbers(trials.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  runtime::terminal::StatusLine line;
  const auto rungs = static_cast<int64_t>(std::max<size_t>(1, sweep.halving.rungs.size()));
  for (int64_t rung = 0; rung < rungs && !numbers.empty(); ++rung) {
    if (rungs > 1)
      line.print(fmt::format("rung {} of {}: {} trials, {} {}", rung + 1, rungs, numbers.size(),
                             sweep.halving.rungs[static_cast<size_t>(rung)], sweep.halving.unit));
    if (const int signal = Rung(sweep, trials, folder, rung, line).run(numbers); signal != 0)
      return signal;
    if (rung + 1 < rungs)
      numbers = promoted(sweep.halving, folder.records(), numbers, rung, sweep.maximize);
  }
  return 0;
}

}  // namespace tools::sweep
