// Chooses how progress is shown, and makes the files of metrics.
#include "runtime/session/reporters.h"

#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <iostream>

#include "runtime/config/metrics.h"
#include "runtime/error.h"
#include "runtime/row_of.h"
#include "runtime/session/reports/metrics_files.h"
#include "runtime/session/reports/metrics_server.h"
#include "runtime/system/host_name.h"
#include "runtime/terminal/terminal.h"

namespace runtime::session {

namespace {

// Colours on a terminal that can redraw, unless the environment has a NO_COLOR that is not empty
// (https://no-color.org).
TerminalStyle terminal_style() {
  const char* const no_colour = std::getenv("NO_COLOR");
  return {terminal::can_redraw(STDOUT_FILENO) && (no_colour == nullptr || *no_colour == '\0'),
          [] { return terminal::columns(STDOUT_FILENO); }};
}

std::unique_ptr<train::Reporter> make_progress(const std::string& kind, int64_t epochs,
                                               int64_t steps) {
  const char* const automatic = terminal::can_redraw(STDOUT_FILENO) ? "bar"
                                : isatty(STDOUT_FILENO) != 0        ? "epochs"
                                                                    : "lines";
  using Make = std::function<std::unique_ptr<train::Reporter>()>;
  const auto bar = [&] {
    return make_progress_bar(std::cout, std::cerr, epochs, steps, terminal_style());
  };
  return row_of<Make>("metrics.progress", kind == "auto" ? automatic : kind,
                      {{"off", [] { return make_silence(std::cerr); }},
                       {"bar", bar},
                       {"epochs", [&] { return make_epoch_lines(std::cout, std::cerr, epochs); }},
                       {"lines", [] { return make_json_lines(std::cout, std::cerr); }}})();
}

// The metrics that are numbers and that the table has no column of its own for.
std::vector<std::string> numbers_of(std::vector<std::string> metrics) {
  std::erase_if(metrics, [](const std::string& name) {
    const config::Metric* const metric = config::find_metric(name);
    return metric->always || metric->table;
  });
  return metrics;
}

constexpr int kLastPort = 65535;
constexpr const char* kFolderOfRanks = "ranks";

RankName rank_name(const config::Config& config, const launch::RankEnvironment& place) {
  return {config.name, place.rank, system::host_name()};
}

// The page has each number of the last line that had it.
class PageReporter : public train::Reporter {
 public:
  PageReporter(const RankName& name, const std::string& address, int port)
      : page_(name), server_(address, port) {}
  void note(const std::string&) override {}
  void line(const Metrics& metrics) override {
    page_.add(metrics);
    server_.show(page_.text());
  }

 private:
  RankPage page_;
  MetricsServer server_;
};

}  // namespace

std::unique_ptr<train::Reporter> make_rank_page(const config::Config& config,
                                                const launch::RankEnvironment& place) {
  const config::Metrics& metrics = config.metrics;
  if (metrics.prometheus_port == 0) return make_tee({});
  const int port = metrics.prometheus_port + place.local_rank;
  if (port > kLastPort)
    throw ConfigurationError(
        "metrics.prometheus_port = " + std::to_string(metrics.prometheus_port) + " gives rank " +
        std::to_string(place.rank) + " the port " + std::to_string(port) + "; expected at most " +
        std::to_string(kLastPort) + ": choose a smaller one");
  return std::make_unique<PageReporter>(rank_name(config, place), metrics.prometheus_address, port);
}

std::unique_ptr<train::Reporter> make_rank_lines(const config::Config& config,
                                                 const launch::RankEnvironment& place,
                                                 const std::filesystem::path& folder,
                                                 int64_t after) {
  if (!config.metrics.ranks) return make_tee({});
  if (place.rank == 0) cut_rank_files(folder / kFolderOfRanks, place.world_size, after);
  return make_rank_file((folder / kFolderOfRanks / rank_file(place.rank)).string(),
                        rank_name(config, place), after, std::cerr);
}

std::unique_ptr<train::Reporter> make_reporter(const config::Config& config,
                                               const std::filesystem::path& folder, int64_t epochs,
                                               int64_t steps, int64_t after) {
  std::vector<std::unique_ptr<train::Reporter>> list;
  list.push_back(make_progress(config.metrics.progress, epochs, steps));
  if (config.metrics.jsonl)
    list.push_back(make_metrics_file((folder / "metrics.jsonl").string(), std::cerr));
  if (config.metrics.csv)
    list.push_back(make_csv((folder / "metrics.csv").string(), after, std::cerr,
                            numbers_of(config.validation.metrics)));
  if (config.metrics.tensorboard)
    list.push_back(make_tensorboard((folder / "tensorboard").string(), after, std::cerr));
  return make_tee(std::move(list));
}

}  // namespace runtime::session
