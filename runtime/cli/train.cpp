#include <unistd.h>

#include <csignal>
#include <iostream>

#include "runtime/cli/commands.h"
#include "runtime/cli/session.h"
#include "runtime/error.h"
#include "runtime/train/open.h"
#include "runtime/train/run.h"
#include "runtime/train/stop_signal.h"

namespace runtime::cli {

namespace {

struct TrainArguments {
  ConfigArguments config;
  std::string weights;
  int64_t max_steps = 0;
};

std::unique_ptr<train::Reporter> make_reporter(const config::Config& config,
                                               const std::filesystem::path& folder, int64_t epochs,
                                               int64_t steps) {
  std::vector<std::unique_ptr<train::Reporter>> list;
  const std::string& kind = config.metrics.progress;
  if (kind == "bar" || (kind == "auto" && isatty(STDOUT_FILENO))) {
    list.push_back(train::make_progress_bar(std::cout, epochs, steps));
  } else if (kind != "off") {
    list.push_back(train::make_json_lines(std::cout, std::cerr));
  }
  if (config.metrics.jsonl)
    list.push_back(train::make_metrics_file((folder / "metrics.jsonl").string()));
  return train::make_tee(std::move(list));
}

int64_t steps_per_epoch(const Session& session) {
  const data::Loader counter(session.data.train, [&] {
    data::LoaderOptions o = train::train_loader_options(session.config);
    o.prefetch = 0;
    return o;
  }());
  return counter.batches_per_epoch();
}

void announce(const Session& s, const std::filesystem::path& folder, train::Reporter& reporter) {
  if (!s.choice.empty()) reporter.note(s.choice);
  reporter.note("training " + s.config.name + " on " + s.device->id() + " (" +
                s.device->properties().name + "): " + std::to_string(s.trainer->parameter_count()) +
                " parameters, " + s.data.train->description());
  for (const std::string& note : s.trainer->notes()) reporter.note("note: " + note);
  reporter.note("run folder: " + folder.string());
}

void run_train(const TrainArguments& arguments, Outcome& outcome) {
  train::StopSignal stop;  // before any thread is made
  config::Config config = arguments.config.load();
  if (!arguments.weights.empty()) config.model.init_from = arguments.weights;
  Session session(std::move(config));
  const std::filesystem::path folder = train::make_run_folder(session.config);
  const int64_t per_epoch = steps_per_epoch(session);
  int64_t steps = train::total_steps(session.config, per_epoch);
  if (arguments.max_steps > 0) steps = std::min(steps, arguments.max_steps);
  const auto reporter =
      make_reporter(session.config, folder, (steps + per_epoch - 1) / per_epoch, steps);
  announce(session, folder, *reporter);

  train::RunOptions options;
  if (arguments.max_steps > 0) options.max_steps = arguments.max_steps;
  options.stop = [&] { return stop.pending(); };
  const train::RunResult result =
      train::run_training(session.config, session.data, *session.trainer, *reporter, options);
  const std::filesystem::path file = folder / "weights.safetensors";
  data::write_safetensors(file.string(), session.trainer->weights());
  if (result.signal != 0) {
    reporter->note("stopped by " + std::string(result.signal == SIGINT ? "SIGINT" : "SIGTERM") +
                   " after step " + std::to_string(result.steps) +
                   "; weights saved: " + file.string());
    outcome.exit_code = 128 + result.signal;
    return;
  }
  reporter->note("done: " + std::to_string(result.steps) + " steps, weights: " + file.string() +
                 "\nnext: runtime evaluate " + arguments.config.path + " --weights " +
                 file.string());
}

}  // namespace

void add_train(CLI::App& app, Outcome& outcome) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train a model as a TOML file says");
  arguments->config.add_to(*command);
  command->add_option("--weights", arguments->weights,
                      "Start from the weights of this safetensors file");
  command->add_option("--max-steps", arguments->max_steps, "Stop after so many steps")
      ->check(CLI::PositiveNumber);
  command->footer(
      "Examples:\n"
      "  runtime train configs/fashion_mnist_lenet.toml\n"
      "  runtime train configs/fashion_mnist_lenet.toml --set optimizer.lr=0.1 --set "
      "training.epochs=3\n"
      "  runtime train configs/cifar10_resnet18.toml --weights resnet18.safetensors --max-steps "
      "100");
  command->callback([arguments, &outcome] { run_train(*arguments, outcome); });
}

}  // namespace runtime::cli
