// The command tune batch: the search for the limit, then the speed of a few sizes below it.
#include "tools/tune/batch.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "runtime/error.h"
#include "runtime/terminal/status_line.h"
#include "runtime/terminal/table.h"
#include "runtime/terminal/terminal.h"
#include "runtime/train/formatted.h"
#include "tools/trials/pool.h"
#include "tools/tune/batch_search.h"
#include "tools/tune/batch_trial.h"

namespace tools::tune {

namespace {

using trials::Json;

// Processes that are started later inherit the limit; this program itself needs very little.
void limit_address_space(uint64_t bytes) {
  if (bytes == 0) return;
  const rlimit limit{bytes, bytes};
  if (setrlimit(RLIMIT_AS, &limit) == 0) return;
  throw runtime::ConfigurationError(fmt::format(
      "--memory-limit {}: {}; the limit of this process (ulimit -v) is lower: leave the option out",
      bytes, std::strerror(errno)));
}

// Thrown to leave the search when a signal has arrived.
struct Interrupted {
  int signal = 0;
};

// Runs trials and keeps them, by size.
class Trials {
 public:
  Trials(const BatchArguments& arguments, std::string key)
      : arguments_(arguments), key_(std::move(key)), pool_(trials::runtime_program()) {}

  bool fits(int64_t size) {
    trials::Task task;
    task.name = fmt::format("the trial with batch size {}", size);
    task.arguments = {"bench"};
    arguments_.config.append_to(task.arguments);
    task.arguments.insert(task.arguments.end(),
                          {"--json", "--steps", std::to_string(arguments_.steps), "--set",
                           fmt::format("{}={}", key_, size)});
    task.timeout_s = arguments_.timeout_s;
    line_.begin(fmt::format("measuring batch size {}", size));
    pool_.start(std::move(task));
    const std::optional<trials::Ended> ended = pool_.wait();
    line_.clear();
    if (pool_.signal() != 0) throw Interrupted{pool_.signal()};
    const BatchTrial trial = judge(size, *ended);
    done_[size] = trial;
    line_.print(fmt::format(
        "batch size {}: {}", size,
        trial.speed ? runtime::train::rate_text(trial.speed->samples_per_second) + " samples/s"
                    : trial.reason));
    return trial.speed.has_value();
  }

  const std::map<int64_t, BatchTrial>& done() const { return done_; }

 private:
  const BatchArguments& arguments_;
  const std::string key_;
  runtime::terminal::StatusLine line_;
  trials::Pool pool_;
  std::map<int64_t, BatchTrial> done_;
};

// The key that holds the batch size: whichever of the two the configuration gives.
std::string key_of(const runtime::config::Value& config) {
  return trials::number_of(config, "training", "batch_size_per_rank") > 0
             ? "training.batch_size_per_rank"
             : "training.global_batch_size";
}

BatchSearch search_of(const BatchArguments& arguments, const runtime::config::Value& config) {
  BatchSearch search;
  search.precision = arguments.precision;
  if (key_of(config) == "training.global_batch_size")
    search.multiple =
        std::max<int64_t>(1, static_cast<int64_t>(trials::number_of(config, "launch", "ranks")));
  search.start = arguments.start > 0 ? arguments.start : 16 * search.multiple;
  if (arguments.most > 0) search.most = arguments.most;
  if (search.start > search.most) {
    throw runtime::ConfigurationError(
        fmt::format("--start {} is more than --most {}; swap them", search.start, search.most));
  }
  return search;
}

const BatchTrial& fastest_of(const std::map<int64_t, BatchTrial>& done) {
  return std::max_element(done.begin(), done.end(),
                          [](const auto& a, const auto& b) {
                            const auto speed = [](const BatchTrial& t) {
                              return t.speed ? t.speed->samples_per_second : -1;
                            };
                            return speed(a.second) < speed(b.second);
                          })
      ->second;
}

std::vector<std::string> cells_of(const BatchTrial& trial) {
  if (!trial.speed) return {std::to_string(trial.size), "-", "-", "-", "-", "-", trial.reason};
  const BatchSpeed& s = *trial.speed;
  return {std::to_string(trial.size),
          runtime::train::rate_text(s.samples_per_second),
          fmt::format("{:.3f}", s.step_ms),
          fmt::format("{:.1f}", static_cast<double>(s.memory_bytes) / (1 << 20)),
          s.device_memory_bytes
              ? fmt::format("{:.1f}", static_cast<double>(*s.device_memory_bytes) / (1 << 20))
              : "-",
          s.utilisation ? fmt::format("{} %", *s.utilisation) : "-"};
}

// The trials as a table. The reason of one that does not fit has been said in full when it ended.
runtime::terminal::Table table_of(const std::map<int64_t, BatchTrial>& done) {
  using Kind = runtime::terminal::Column::Kind;
  runtime::terminal::Table table({{"batch size", Kind::kNumber},
                                  {"samples/s", Kind::kNumber},
                                  {"step ms", Kind::kNumber},
                                  {"memory MiB", Kind::kNumber},
                                  {"device MiB", Kind::kNumber, 2},
                                  {"utilisation", Kind::kNumber, 1},
                                  {"why not"}});
  for (const auto& [size, trial] : done) table.add(cells_of(trial));
  return table;
}

plot::Plot plot_of(const std::map<int64_t, BatchTrial>& done, const std::string& key) {
  plot::Plot plot{"speed by batch size", key, "samples/s", true, false, {{"samples/s", {}}}};
  for (const auto& [size, trial] : done) {
    if (trial.speed)
      plot.series[0].points.emplace_back(static_cast<double>(size),
                                         trial.speed->samples_per_second);
  }
  return plot;
}

Json json_of(const BatchArguments& arguments, const std::string& key, int64_t largest,
             const std::map<int64_t, BatchTrial>& done) {
  Json j = {{"config", arguments.config.path},
            {"key", key},
            {"largest", largest},
            {"fastest", fastest_of(done).size},
            {"trials", Json::array()}};
  for (const auto& [size, trial] : done) {
    Json t = {{"batch_size", size}, {"fits", trial.speed.has_value()}};
    if (!trial.speed) {
      t["reason"] = trial.reason;
    } else {
      t["samples_per_second"] = trial.speed->samples_per_second;
      t["step_ms"] = trial.speed->step_ms;
      t["peak_memory_bytes"] = trial.speed->memory_bytes;
      if (trial.speed->device_memory_bytes)
        t["device_memory_bytes"] = *trial.speed->device_memory_bytes;
      if (trial.speed->utilisation) t["device_utilisation"] = *trial.speed->utilisation;
    }
    j["trials"].push_back(std::move(t));
  }
  return j;
}

// `most`: the bound of the search, which says nothing of what does not fit.
void print(const std::map<int64_t, BatchTrial>& done, const std::string& key, int64_t largest,
           int64_t most) {
  const int columns = runtime::terminal::columns(STDOUT_FILENO);
  fmt::print("{}\n{}\n", table_of(done).text(columns),
             plot::text_plot(plot_of(done, key), columns));
  const BatchTrial& fastest = fastest_of(done);
  runtime::terminal::print_folded(fmt::format(
      "{}: {} = {}\nfastest that was measured: {} = {}, {} samples/s\n\n",
      largest < most ? "largest that fits" : "fits, and no larger one was tried (--most)", key,
      largest, key, fastest.size, runtime::train::rate_text(fastest.speed->samples_per_second)));
  fmt::print("{}", trials::toml_lines({{key, fastest.size}}));
}

}  // namespace

int tune_batch(const BatchArguments& arguments) {
  const runtime::config::Value config = arguments.config.resolved();
  const std::string key = key_of(config);
  const BatchSearch search = search_of(arguments, config);
  limit_address_space(arguments.memory_limit);
  Trials trials(arguments, key);
  int64_t largest = 0;
  try {
    largest = largest_that_fits(search, [&](int64_t size) { return trials.fits(size); });
  } catch (const Interrupted& interrupted) {
    return 128 + interrupted.signal;
  }
  if (largest == 0) {
    const BatchTrial& smallest = trials.done().begin()->second;
    throw runtime::DeviceError(fmt::format(
        "no batch size fits, not even {}: {}; use a smaller model, or allow more memory or time",
        smallest.size, smallest.reason));
  }
  print(trials.done(), key, largest, search.most);
  arguments.output.write(plot_of(trials.done(), key),
                         json_of(arguments, key, largest, trials.done()));
  return 0;
}

}  // namespace tools::tune
