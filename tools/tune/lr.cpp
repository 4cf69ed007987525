// The command tune lr: a training with a growing rate, its curve, and a training with the
// suggestion.
#include "tools/tune/lr.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "runtime/error.h"
#include "runtime/terminal/status_line.h"
#include "runtime/terminal/terminal.h"
#include "runtime/terminal/text.h"
#include "tools/trials/pool.h"
#include "tools/tune/lr_curve.h"

namespace tools::tune {

namespace {

namespace fs = std::filesystem;
using trials::Json;

// A new folder below that for temporary files, which is removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((fs::temp_directory_path() / "runtime-tune-XXXXXX").string()) {
    if (mkdtemp(path_.data()) != nullptr) return;
    throw runtime::DataError(path_ +
                             ": cannot be made; set TMPDIR to a folder that can be written");
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The rates of a training: the first, and by what the last one is that multiplied.
struct Rates {
  double first = 0, growth = 1;
};

// The configuration with another schedule, and without everything that costs time besides steps.
trials::Settings settings_of(const LrArguments& arguments, const Rates& rates,
                             const std::string& folder) {
  return {{"job.dump_folder", folder},
          {"training.steps", arguments.steps},
          {"optimizer.lr", rates.first},
          {"lr_scheduler.name", "exponential"},
          {"lr_scheduler.gamma", rates.growth},
          {"lr_scheduler.decay_steps", arguments.steps - 1},
          {"lr_scheduler.min_lr", 0.0},
          {"lr_scheduler.warmup_steps", 0},
          {"lr_scheduler.milestones", Json::array()},
          {"validation.every_epochs", 0},
          {"validation.every_steps", 0},
          {"debug.nan", "stop"},
          {"early_stopping.patience", 0},
          {"early_stopping.restore_best", false},
          {"checkpoint.interval_steps", 0},
          {"checkpoint.interval_epochs", 0},
          {"checkpoint.interval_minutes", 0},
          {"checkpoint.keep_best", 0},
          {"metrics.log_every_steps", 1},
          {"metrics.progress", "lines"},
          {"metrics.jsonl", false},
          {"metrics.csv", false},
          {"metrics.tensorboard", false}};
}

trials::Task task_of(const LrArguments& arguments, const Rates& rates, const std::string& folder) {
  trials::Task task;
  task.name = rates.growth > 1 ? "the training with growing rates" : "the training at one rate";
  task.arguments = {"train"};
  arguments.config.append_to(task.arguments);
  trials::add_settings(task.arguments, settings_of(arguments, rates, folder));
  return task;
}

// The loss of a step, or nullopt for a line without one. A step of which no label counts has null;
// one that is not finite ends the training, because debug.nan is "stop".
std::optional<LrPoint> point_of(const std::string& line) {
  const Json j = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object() || !j.contains("lr") || !j.contains("loss") || !j["loss"].is_number())
    return std::nullopt;
  return LrPoint{j["lr"], j["loss"]};
}

// What the training has told.
struct Test {
  std::vector<LrPoint> points;  // with finite losses
  bool diverged = false;
  int signal = 0;
};

Test train(const LrArguments& arguments, const Rates& rates) {
  const TemporaryFolder folder;
  Test test;
  DivergenceWatch watch(arguments.diverged);
  trials::Task task = task_of(arguments, rates, folder.path());
  runtime::terminal::StatusLine line;
  line.begin(fmt::format("{}: {} steps", task.name, arguments.steps));
  int64_t done = 0;
  task.on_line = [&](const std::string& text) {
    const std::optional<LrPoint> point = point_of(text);
    if (!point || test.diverged) return !test.diverged;
    line.progress(fmt::format("step {}/{}, rate {:.2g}, loss {:.4g}", ++done, arguments.steps,
                              point->lr, point->loss));
    test.diverged = watch.add(point->loss);
    if (std::isfinite(point->loss)) test.points.push_back(*point);
    return !test.diverged;
  };
  trials::Pool pool(trials::runtime_program());
  pool.start(std::move(task));
  const std::optional<trials::Ended> ended = pool.wait();
  test.signal = pool.signal();
  if (test.signal != 0) return test;
  const auto code = static_cast<runtime::ExitCode>(ended->exit_code);
  if (code == runtime::ExitCode::kNumeric) test.diverged = true;
  if (ended->exit_code != 0 && !test.diverged) throw runtime::Error(code, ended->error);
  return test;
}

// The rates are multiplied by lr_scheduler.scale_with_batch; the curve shows optimizer.lr.
void take_scale_out(std::vector<LrPoint>& points, double from) {
  if (points.empty()) return;
  const double scale = points[0].lr / from;
  for (LrPoint& point : points) point.lr /= scale;
}

plot::Plot plot_of(const std::vector<LrPoint>& points) {
  plot::Plot plot{"loss by learning rate",         "optimizer.lr", "loss", true, false,
                  {{"loss", {}}, {"smoothed", {}}}};
  const std::vector<double> means = smoothed(points, radius_for(points.size()));
  for (size_t i = 0; i < points.size(); ++i) {
    plot.series[0].points.emplace_back(points[i].lr, points[i].loss);
    plot.series[1].points.emplace_back(points[i].lr, means[i]);
  }
  return plot;
}

Json json_of(const LrArguments& arguments, const Test& test, const LrSuggestion& found,
             double suggestion) {
  Json j = {{"config", arguments.config.path}, {"diverged", test.diverged},
            {"suggestion", suggestion},        {"steepest", found.steepest},
            {"lowest", found.lowest},          {"lowest_divided_by_ten", found.tenth()},
            {"points", Json::array()}};
  const std::vector<double> means = smoothed(test.points, radius_for(test.points.size()));
  for (size_t i = 0; i < test.points.size(); ++i) {
    j["points"].push_back(
        {{"lr", test.points[i].lr}, {"loss", test.points[i].loss}, {"smoothed", means[i]}});
  }
  return j;
}

// The plot for a terminal: the end of a curve that diverges would hide the rest of it.
plot::Plot for_terminal(const std::vector<LrPoint>& points) {
  plot::Plot plot = plot_of(points);
  plot.series.erase(plot.series.begin());
  const double top = plot.series[0].points[0].second * 1.5;
  std::erase_if(plot.series[0].points, [&](const auto& point) { return point.second > top; });
  plot.title = "smoothed loss by learning rate";
  return plot;
}

// A rate that was tried, and what came of it.
struct Tried {
  double rate = 0;
  bool usable = false;
  int signal = 0;
};

// Trains at one rate after the other until one makes the loss fall.
Tried try_rates(const LrArguments& arguments, const LrSuggestion& found) {
  Tried tried;
  for (const double rate : found.rates_to_try()) {
    const Test test = train(arguments, {rate, 1});
    tried = {rate, !test.diverged && is_usable(test.points, found.fall), test.signal};
    if (tried.signal != 0) return tried;
    runtime::terminal::print_folded(
        fmt::format("tried {} steps at {:.2g}: {}\n", test.points.size(), rate,
                    test.diverged  ? "the loss diverges"
                    : tried.usable ? fmt::format("the loss falls from {:.4g} to {:.4g}",
                                                 test.points.front().loss, test.points.back().loss)
                                   : "the loss falls too little"));
    std::cout << std::flush;
    if (tried.usable) return tried;
  }
  return tried;
}

void print(const Test& test, const LrSuggestion& found) {
  const int columns = runtime::terminal::columns(STDOUT_FILENO);
  fmt::print("{}\n{} steps; {}\n", plot::text_plot(for_terminal(test.points), columns),
             test.points.size(),
             test.diverged ? fmt::format("the loss diverges at {:.2g}", test.points.back().lr)
                           : "the loss has not diverged");
  runtime::terminal::print_folded(
      fmt::format("steepest descent at {:.2g}, lowest loss at {:.2g}, a tenth of that is {:.2g}\n",
                  found.steepest, found.lowest, found.tenth()));
  std::cout << std::flush;
}

}  // namespace

int tune_lr(const LrArguments& arguments) {
  if (arguments.from >= arguments.to) {
    throw runtime::ConfigurationError(
        fmt::format("--from {} is not less than --to {}; swap them", arguments.from, arguments.to));
  }
  Test test = train(arguments, {arguments.from, arguments.to / arguments.from});
  if (test.signal != 0) return 128 + test.signal;
  take_scale_out(test.points, arguments.from);
  const std::optional<LrSuggestion> found = suggest(test.points);
  if (!found) {
    throw runtime::NumericError(fmt::format(
        "the loss falls at none of the {} rates up to {:.2g}; take a lower --from, more --steps, "
        "or "
        "look at the model",
        test.points.size(), test.points.empty() ? arguments.from : test.points.back().lr));
  }
  print(test, *found);
  const Tried tried = try_rates(arguments, *found);
  if (tried.signal != 0) return 128 + tried.signal;
  arguments.output.write(plot_of(test.points), json_of(arguments, test, *found, tried.rate));
  if (!tried.usable) {
    throw runtime::NumericError(
        "none of these rates makes the loss fall by half of what it fell in the range test; take "
        "more --steps, or look at the model");
  }
  fmt::print("\n{}", trials::toml_lines({{"optimizer.lr", trials::rounded(tried.rate, 2)}}));
  return 0;
}

}  // namespace tools::tune
