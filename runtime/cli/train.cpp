#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iostream>
#include <optional>

#include "runtime/cli/commands.h"
#include "runtime/cli/session.h"
#include "runtime/error.h"
#include "runtime/train/open.h"
#include "runtime/train/run.h"
#include "runtime/train/schedule.h"
#include "runtime/train/stop_signal.h"

namespace runtime::cli {

namespace {

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

// Fewer samples leave most of a device's lanes idle, and the communication is not worth it.
constexpr int64_t kFewSamples = 16;

void announce(const Session& s, train::Reporter& reporter) {
  if (!s.choice.empty()) reporter.note(s.choice);
  reporter.note("training " + s.config.name + " on " + s.device->id() + " (" +
                s.device->properties().name + "): " + std::to_string(s.trainer->parameter_count()) +
                " parameters, " + s.data.train->description());
  const int ranks = s.rank.place.world_size;
  if (ranks > 1) {
    const int64_t global = s.config.training.global_batch_size;
    reporter.note(std::to_string(ranks) + " ranks over " + s.rank.backend + ", global batch " +
                  std::to_string(global));
    if (s.rank.collectives->access().stages(*s.device))
      reporter.note("note: " + s.rank.backend + " cannot read the memory of " + s.device->id() +
                    "; collectives go through pinned host memory");
    if (global / ranks < kFewSamples)
      reporter.note("hint: a rank gets " + std::to_string(global / ranks) +
                    " samples a step; below " + std::to_string(kFewSamples) +
                    " a device is mostly idle: use a larger batch or fewer ranks");
  }
  for (const std::string& note : s.trainer->notes()) reporter.note("note: " + note);
  reporter.note("run folder: " + s.rank.run_folder);
}

// Whether the ranks were worth it. All ranks call it.
void report_scaling(const Session& s, const train::RunResult& result, train::Reporter& reporter) {
  if (s.rank.collectives == nullptr || result.cost.steps == 0 || result.signal != 0) return;
  const train::Scaling scaling = train::measure_scaling(s.config, *s.trainer, s.rank.collectives,
                                                        s.rank.backend, result.cost, s.planner());
  if (!s.rank.main()) return;
  reporter.note(train::explain(scaling));
  reporter.note(train::explain_memory(scaling));
  const std::string file = s.rank.run_folder + "/scaling.json";
  std::ofstream out(file);
  out << train::to_json(scaling) << "\n";
  if (!out.flush())
    throw DataError(file + ": cannot be written; see how full the file system is (df)");
}

// On rank 0; the others have nothing to say.
void finish(const TrainArguments& arguments, const Session& session, const train::RunResult& result,
            const std::string& file, train::Reporter& reporter, Outcome& outcome) {
  if (result.signal != 0) {
    reporter.note("stopped by " + std::string(result.signal == SIGINT ? "SIGINT" : "SIGTERM") +
                  " after step " + std::to_string(result.steps) + "; weights saved: " + file);
    outcome.exit_code = 128 + result.signal;
    return;
  }
  reporter.note("done: " + std::to_string(result.steps) + " steps, weights: " + file +
                "\nnext: runtime " +
                (session.data.train->spec().labels > 1 ? "predict " : "evaluate ") +
                arguments.config.path + " --weights " + file);
}

void train_rank(Session& session, const TrainArguments& arguments, train::StopSignal& stop,
                const std::string& choice, Outcome& outcome) {
  const int64_t per_epoch = steps_per_epoch(session);
  int64_t steps = train::total_steps(session.config, per_epoch);
  if (arguments.max_steps > 0) steps = std::min(steps, arguments.max_steps);
  const auto reporter = session.rank.main()
                            ? make_reporter(session.config, session.rank.run_folder,
                                            (steps + per_epoch - 1) / per_epoch, steps)
                            : train::make_tee({});
  if (!choice.empty()) reporter->note(choice);
  announce(session, *reporter);
  train::RunOptions options;
  if (arguments.max_steps > 0) options.max_steps = arguments.max_steps;
  // Ranks that are threads have one signal between them.
  if (session.rank.main() || session.rank.backend != "local")
    options.stop = [&] { return stop.pending(); };
  const train::RunResult result =
      train::run_training(session.config, session.data, *session.trainer, *reporter, options);
  session.trainer->share_statistics();
  const std::string file = session.rank.run_folder + "/weights.safetensors";
  const data::TensorFile weights = session.trainer->weights();
  if (session.rank.main()) data::write_safetensors(file, weights);
  report_scaling(session, result, *reporter);
  if (session.rank.main()) return finish(arguments, session, result, file, *reporter, outcome);
  // Threads leave that to rank 0.
  if (result.signal != 0 && session.rank.backend != "local")
    outcome.exit_code = 128 + result.signal;
}

}  // namespace

void run_train(const TrainArguments& arguments, Outcome& outcome) {
  launch::RunRanks run;
  run.config = arguments.config.load();
  if (!arguments.weights.empty()) run.config.model.init_from = arguments.weights;
  std::optional<train::StopSignal> stop;
  run.prepare = [&] { stop.emplace(); };
  run.make_run_folder = [&] { return train::make_run_folder(run.config).string(); };
  std::string choice;
  run_sessions(
      run, outcome,
      [&](Session& session) { train_rank(session, arguments, *stop, choice, outcome); },
      [&](const train::Candidate& best) {
        run.config.parallelism = best.config.parallelism;  // that is saved
        choice = "parallelism.search takes " + to_string(best.mesh) + " (predicted " +
                 fmt::format("{:.3f}", best.plan.prediction.times.step() * 1e3) + " ms a step)";
      });
}

}  // namespace runtime::cli
