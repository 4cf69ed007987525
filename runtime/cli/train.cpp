// The command train: what is said before, during and after training, and the files that it leaves.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>

#include "runtime/analysis/scaling.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/profile.h"
#include "runtime/cli/session.h"
#include "runtime/config/advice.h"
#include "runtime/config/metrics.h"
#include "runtime/error.h"
#include "runtime/launch/device_watch.h"
#include "runtime/launch/environment.h"
#include "runtime/row_of.h"
#include "runtime/system/atomic_file.h"
#include "runtime/terminal/terminal.h"
#include "runtime/train/checkpoint/find.h"
#include "runtime/train/metrics_files.h"
#include "runtime/train/open.h"
#include "runtime/train/plugin_records.h"
#include "runtime/train/run.h"
#include "runtime/train/run_folder.h"
#include "runtime/train/schedule.h"
#include "runtime/train/stop_signal.h"
#include "runtime/train/summary.h"
#include "runtime/train/weights.h"

namespace runtime::cli {

namespace {

// Colours on a terminal that can redraw, unless the environment has a NO_COLOR that is not empty
// (https://no-color.org).
train::TerminalStyle terminal_style() {
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
    return train::make_progress_bar(std::cout, std::cerr, epochs, steps, terminal_style());
  };
  return row_of<Make>(
      "metrics.progress", kind == "auto" ? automatic : kind,
      {{"off", [] { return train::make_silence(std::cerr); }},
       {"bar", bar},
       {"epochs", [&] { return train::make_epoch_lines(std::cout, std::cerr, epochs); }},
       {"lines", [] { return train::make_json_lines(std::cout, std::cerr); }}})();
}

// The metrics that are numbers and that the table has no column of its own for.
std::vector<std::string> numbers_of(std::vector<std::string> metrics) {
  std::erase_if(metrics, [](const std::string& name) {
    const config::Metric* const metric = config::find_metric(name);
    return metric->always || metric->table;
  });
  return metrics;
}

// `after`: the step that the run goes on after, 0 if it begins.
std::unique_ptr<train::Reporter> make_reporter(const config::Config& config,
                                               const std::filesystem::path& folder, int64_t epochs,
                                               int64_t steps, int64_t after) {
  std::vector<std::unique_ptr<train::Reporter>> list;
  list.push_back(make_progress(config.metrics.progress, epochs, steps));
  if (config.metrics.jsonl)
    list.push_back(train::make_metrics_file((folder / "metrics.jsonl").string(), std::cerr));
  if (config.metrics.csv)
    list.push_back(train::make_csv((folder / "metrics.csv").string(), after, std::cerr,
                                   numbers_of(config.validation.metrics)));
  if (config.metrics.tensorboard)
    list.push_back(train::make_tensorboard((folder / "tensorboard").string(), after, std::cerr));
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

// With fewer samples for each rank most of a device's lanes are idle, and the communication does
// not pay.
constexpr int64_t kFewSamples = 16;

void announce(const Session& s, train::Reporter& reporter) {
  if (!s.choice.empty()) reporter.note(s.choice);
  for (const std::string& sentence : config::advice(s.config))
    reporter.note("warning: " + sentence);
  for (const std::string& sentence : {train::batch_advice(s.config, *s.data.train),
                                      train::target_advice(s.config, *s.data.train)})
    if (!sentence.empty()) reporter.note("warning: " + sentence);
  reporter.note("training " + s.config.name + " on " + s.device->id() + " (" +
                s.device->properties().name +
                "): " + std::to_string(s.programs->parameter_count()) + " parameters, " +
                s.data.train->description());
  for (const std::string& note : s.data.notes) reporter.note("note: " + note);
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
  for (const std::string& note : s.programs->notes()) reporter.note("note: " + note);
  if (s.resumed) {
    reporter.note("resumed from " + s.resumed->path().string() + ", saved after step " +
                  std::to_string(s.resumed->manifest.state.step));
    for (const std::string& note : s.resume_notes) reporter.note("note: " + note);
  } else if (s.config.checkpoint.resumes_newest()) {
    const std::string& named = s.config.job.dump_folder;
    reporter.note("note: --resume auto has found no checkpoint in " +
                  (named.empty() ? "outputs/" + s.config.name : named) +
                  "; training begins at step 0");
  }
  reporter.note("run folder: " + s.rank.run_folder);
}

// Reports whether adding ranks has paid. All ranks must call it.
void report_scaling(const Session& s, const train::RunResult& result, train::Reporter& reporter) {
  if (s.rank.collectives == nullptr || result.cost.steps == 0 || result.signal != 0) return;
  const analysis::Planner planner = s.planner();
  analysis::Scaling scaling = analysis::measure_scaling(s.config, *s.programs, s.rank.collectives,
                                                        s.rank.backend, result.cost, planner);
  s.rank.on_main("the report of what the ranks were worth", [&] {
    analysis::add_plan(scaling, s.config, planner);
    reporter.note(analysis::explain(scaling));
    reporter.note(analysis::explain_memory(scaling));
    system::write_file(s.rank.run_folder + "/scaling.json", analysis::to_json(scaling) + "\n");
  });
}

// Saves the weights, which all ranks have; all ranks must call it. Weights that are not finite are
// useless and must not replace good ones.
void save_weights(const Session& s, const train::RunResult& result, const data::TensorFile& weights,
                  const std::string& file, train::Reporter& reporter) {
  const std::string bad = train::first_not_finite(weights);
  if (!bad.empty() && s.config.debug.stops_at_nan()) {
    const std::string what = result.numeric_error.empty() ? "" : result.numeric_error + "; ";
    throw NumericError(
        what + "after step " + std::to_string(result.steps) + " parameter '" + bad +
        "' has a NaN or an infinity, so the weights are not saved" +
        (std::filesystem::exists(file) ? "; " + file + " is of an earlier run" : "") +
        "; lower optimizer.lr, or clip gradients with training.max_norm");
  }
  s.rank.on_main("saving the weights", [&] {
    data::write_safetensors(file, weights);
    if (s.rank.collectives != nullptr) reporter.note("weights saved: " + file);
  });
  if (!result.numeric_error.empty())
    throw NumericError(result.numeric_error + "; the parameters are finite, and saved: " + file);
}

// Why the run has made no step, and how to train longer; "" if it has made one.
std::string nothing_left(const Session& s, const train::RunResult& result, int64_t max_steps) {
  if (!s.resumed || result.steps != s.resumed->manifest.state.step) return "";
  const config::Training& t = s.config.training;
  std::string last = "training.epochs is " + std::to_string(t.epochs);
  std::string more = "--resume auto --set training.epochs=N with a larger N";
  if (result.stopped_early) {
    last = "early_stopping.patience is " + std::to_string(s.config.early_stopping.patience);
    more = "--resume auto --set early_stopping.patience=N with a larger N";
  } else if (max_steps > 0 && max_steps <= result.steps) {
    last = "--max-steps is " + std::to_string(max_steps);
    more = "--resume auto with a larger --max-steps, or without it";
  } else if (t.steps > 0) {
    last = "training.steps is " + std::to_string(t.steps);
    more = "--resume auto --set training.steps=N with a larger N";
  }
  return "nothing was left to do: the run was already at step " + std::to_string(result.steps) +
         ", and " + last + "; to train longer: runtime train " + s.rank.run_folder +
         "/config.toml " + more;
}

// Says whose weights are saved, where the run was to end with the best ones. `weights`: the
// beginning of the sentence.
std::string restored(const train::RunResult& result, const std::string& weights) {
  if (!result.restored_step) {
    return weights +
           " those of the last step: early_stopping.restore_best has found no checkpoint "
           "with a validation";
  }
  if (result.best_after == 0 && *result.restored_step == result.best->step)
    return weights + " those of the best validation; checkpoints/ also has the last step";
  return weights + " those of the best checkpoint that was found, after step " +
         std::to_string(*result.restored_step) + "; checkpoints/ also has the last step";
}

// Says at the end of training what was done, where the weights are and which command comes next:
// it uses the file `best`, the average if there is one. Only rank 0 calls it.
void finish(const Session& session, const train::RunResult& result, const std::string& file,
            const std::string& best, int64_t max_steps, train::Reporter& reporter,
            Outcome& outcome) {
  if (result.signal != 0) {
    reporter.note(train::unfinished_epoch(result) + "stopped by SIG" +
                  std::string(sigabbrev_np(result.signal)) + " after step " +
                  std::to_string(result.steps) + "; weights saved: " + file);
    if (session.config.checkpoint.any())
      reporter.note("go on with: runtime train " + session.rank.run_folder +
                    "/config.toml --resume auto");
    outcome.exit_code = 128 + result.signal;
    return;
  }
  if (result.stopped_early) {
    reporter.note("stopped early after step " + std::to_string(result.steps) + ": the validation " +
                  session.config.validation.monitor + " has not got better " +
                  std::to_string(session.config.early_stopping.patience) + " times in a row");
  }
  if (session.config.early_stopping.restore_best)
    reporter.note(
        restored(result, best == file ? "the weights are" : "the weights and their average are"));
  reporter.note(train::summary(result, session.config.validation.monitor, session.rank.run_folder));
  const std::string nothing = nothing_left(session, result, max_steps);
  if (!nothing.empty()) reporter.note(nothing);
  reporter.note("done: " + std::to_string(result.steps) + " steps, weights: " + file +
                "\nnext: runtime " +
                (session.data.train->spec().labels > 1 ? "predict " : "evaluate ") +
                session.rank.run_folder + "/config.toml --weights " + best);
}

// The training that the ranks of this process do, and the folder of its files.
struct Run {
  const TrainArguments& arguments;
  launch::RunRanks ranks = {};
  std::optional<train::StopSignal> stop = {};
  std::optional<train::RunFolder> folder = {};  // in the process of rank 0
  std::string choice = {};                      // the mesh that was chosen, as text
};

// Makes the files of the run and returns its reporter. On ranks other than 0 the reporter prints
// nothing.
std::unique_ptr<train::Reporter> begin_run(Run& run, const Session& session, int64_t per_epoch,
                                           int64_t steps) {
  std::unique_ptr<train::Reporter> reporter = train::make_tee({});
  session.rank.on_main("making the files of the run", [&] {
    std::error_code ignored;
    const bool same =
        session.resumed && std::filesystem::equivalent(train::run_of(session.resumed->path()),
                                                       session.rank.run_folder, ignored);
    std::optional<uint64_t> kept;
    if (same) kept = session.resumed->manifest.state.metrics_bytes;
    run.folder->begin(run.ranks.config, kept);
    reporter =
        make_reporter(session.config, session.rank.run_folder, (steps + per_epoch - 1) / per_epoch,
                      steps, session.resumed ? session.resumed->manifest.state.step : 0);
  });
  if (!run.choice.empty()) reporter->note(run.choice);
  announce(session, *reporter);
  return reporter;
}

// How the run is saved while it goes on.
void add_checkpoints(train::RunOptions& options, const Session& session,
                     train::Reporter& reporter) {
  options.resumed = session.resumed ? &*session.resumed : nullptr;
  const config::Checkpoint& c = session.config.checkpoint;
  if (!c.any()) return;
  const std::filesystem::path folder = session.rank.run_folder;
  config::Config saved = session.config;
  saved.checkpoint.resume.clear();  // whoever trains with that file begins anew
  options.checkpoints = {folder / train::kCheckpoints,
                         {c.keep_latest, c.keep_best, session.config.validation.monitor},
                         config::to_toml(saved),
                         session.config.debug.stops_at_nan(),
                         [&session](const char* what, const std::function<void()>& work) {
                           session.rank.on_main(what, work);
                         },
                         [&reporter](const std::string& text) { reporter.note(text); },
                         session.config.metrics.jsonl ? (folder / "metrics.jsonl").string() : ""};
  options.metrics_bytes = [file = folder / "metrics.jsonl"] {
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(file, error);
    return error ? 0 : bytes;
  };
}

void train_rank(Session& session, Run& run, Outcome& outcome) {
  const int64_t per_epoch = steps_per_epoch(session);
  int64_t steps = train::Schedule(session.config, per_epoch).total_steps();
  train::RunOptions options;
  if (run.arguments.max_steps > 0) {
    steps = std::min(steps, run.arguments.max_steps);
    options.max_steps = run.arguments.max_steps;
  }
  const std::unique_ptr<train::Reporter> reporter = begin_run(run, session, per_epoch, steps);
  // Ranks that are threads receive one signal together, so only rank 0 looks for it.
  if (session.rank.main() || !session.rank.one_process) {
    options.stop = [&] { return run.stop->pending(); };
    options.stop_after_checkpoint = [&] { return run.stop->after_checkpoint(); };
  }
  add_checkpoints(options, session, *reporter);
  const train::RunResult result = train::run_training(
      session.config, session.data, *session.programs, *session.trainer, *reporter, options);
  session.trainer->share_statistics();
  const std::string file = session.rank.run_folder + "/weights.safetensors";
  save_weights(session, result, session.trainer->weights(), file, *reporter);
  std::string best = file;
  if (session.trainer->has_average()) {
    best = session.rank.run_folder + "/average.safetensors";
    save_weights(session, result, session.trainer->average(), best, *reporter);
  }
  if (!result.checkpoint_error.empty())
    throw DataError(result.checkpoint_error + "; the weights are saved: " + file);
  report_scaling(session, result, *reporter);
  report_profile(session, result, *reporter);
  if (session.rank.main()) {
    finish(session, result, file, best, run.arguments.max_steps, *reporter, outcome);
    reporter->finish();
    return run.stop->everything_is_saved();
  }
  // If ranks are threads, rank 0 sets the exit code.
  if (result.signal != 0 && !session.rank.one_process) outcome.exit_code = 128 + result.signal;
}

// Returns what is said to a person who stops the run. Only rank 0 says it.
train::StopSignal::Texts stop_texts(const config::Config& config) {
  if (launch::detect().rank != 0) return {};
  const bool saves = config.checkpoint.any();
  const std::string before = saves ? "the newest checkpoint is one that was whole before"
                                   : "there is no checkpoint to go on from";
  return {std::string("stopping after this step, then saving the weights") +
              (saves ? " and a checkpoint" : "") +
              "; a second signal ends the program at once without them",
          "a second signal, so that the program ends at once; what was not saved yet is lost, " +
              before};
}

// A run begins with weights or goes on from a checkpoint.
void check_begin(const config::Config& config) {
  if (config.checkpoint.resume.empty() || config.model.init_from.empty()) return;
  if (config.checkpoint.resumes_newest()) return;  // the weights are those of step 0
  throw ConfigurationError("--resume " + config.checkpoint.resume + " and the weights " +
                           config.model.init_from + " are two beginnings; leave one of them out");
}

// With the configuration that a run has saved, its folder is meant, wherever the program is started
// and the folder has been moved to; unless the command line names another one.
void take_folder_of_run(const ConfigArguments& arguments, config::Config& config) {
  const auto names = [](const config::Override& o) { return o.key == "job.dump_folder"; };
  const auto overrides = arguments.all_overrides();
  const auto run = train::RunFolder::of_configuration(arguments.path);
  if (!run.empty() && std::none_of(overrides.begin(), overrides.end(), names))
    config.job.dump_folder = run.string();
}

}  // namespace

void run_train(const TrainArguments& arguments, Outcome& outcome) {
  Run run{arguments};
  config::Config& config = run.ranks.config;
  config = arguments.config.load();
  if (!arguments.weights.empty()) config.model.init_from = arguments.weights;
  if (!arguments.resume.empty()) config.checkpoint.resume = arguments.resume;
  if (config.checkpoint.resumes_newest()) take_folder_of_run(arguments.config, config);
  check_begin(config);
  run.ranks.prepare = [&] { run.stop.emplace(stop_texts(config), launch::device_silence); };
  run.ranks.services.stop_requested = [&] { return run.stop && run.stop->pending() != 0; };
  run.ranks.make_run_folder = [&] {
    const char* const launch = std::getenv(launch::kLaunchVariable);
    run.folder.emplace(config, launch == nullptr ? "" : launch);
    return run.folder->path().string();
  };
  try {
    run_sessions(
        run.ranks, outcome, [&](Session& session) { train_rank(session, run, outcome); },
        [&](const analysis::Candidate& best) {
          config.parallelism = best.config.parallelism;  // the configuration that is saved
          run.choice = "parallelism.search takes " + to_string(best.mesh) + " (predicted " +
                       fmt::format("{:.3f}", best.plan.prediction.times.step() * 1e3) +
                       " ms a step)";
        },
        [&] {
          return run.folder
              ->find_checkpoint(config,
                                [](const std::string& text) { std::cerr << text << std::endl; })
              .string();
        });
  } catch (const train::ReadingStopped& stopped) {
    const int signal = run.stop ? run.stop->pending() : 0;
    if (signal == 0) throw;
    std::cerr << stopped.what() << std::endl;
    outcome.exit_code = 128 + signal;
  }
}

}  // namespace runtime::cli
