// Makes the files of the run, trains, and saves what was learned.
#include "runtime/session/training.h"

#include <algorithm>
#include <filesystem>

#include "runtime/analysis/scaling.h"
#include "runtime/error.h"
#include "runtime/session/announcements.h"
#include "runtime/session/profile.h"
#include "runtime/session/reporters.h"
#include "runtime/session/reports/screen.h"
#include "runtime/system/atomic_file.h"
#include "runtime/train/checkpoint/find.h"
#include "runtime/train/open.h"
#include "runtime/train/run/loop.h"
#include "runtime/train/schedule.h"
#include "runtime/train/weights.h"

namespace runtime::session {

namespace {

int64_t steps_per_epoch(const Session& session) {
  const data::Loader counter(session.data.train, [&] {
    data::LoaderOptions o = train::train_loader_options(session.config);
    o.prefetch = 0;
    return o;
  }());
  return counter.batches_per_epoch();
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

// Makes the files of the run and returns its reporter. On ranks other than 0 the reporter prints
// nothing, and has the numbers of the rank only.
std::unique_ptr<train::Reporter> begin_training(Training& training, const Session& session,
                                                int64_t per_epoch, int64_t steps) {
  std::vector<std::unique_ptr<train::Reporter>> reporters;
  reporters.push_back(make_rank_page(session.config, session.rank.place));  // before files change
  const int64_t after = session.resumed ? session.resumed->manifest.state.step : 0;
  session.rank.on_main("making the files of the run", [&] {
    std::error_code ignored;
    const bool same =
        session.resumed && std::filesystem::equivalent(train::run_of(session.resumed->path()),
                                                       session.rank.run_folder, ignored);
    std::optional<uint64_t> kept;
    if (same) kept = session.resumed->manifest.state.metrics_bytes;
    training.folder->begin(training.config, kept);
    reporters.push_back(make_reporter(session.config, session.rank.run_folder,
                                      (steps + per_epoch - 1) / per_epoch, steps, after));
  });
  reporters.push_back(
      make_rank_lines(session.config, session.rank.place, session.rank.run_folder, after));
  std::unique_ptr<train::Reporter> reporter = make_tee(std::move(reporters));
  if (!training.choice.empty()) reporter->note(training.choice);
  announce_begin(session, *reporter);
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

}  // namespace

int train_on_rank(Session& session, Training& training) {
  const int64_t per_epoch = steps_per_epoch(session);
  int64_t steps = train::Schedule(session.config, per_epoch).total_steps();
  train::RunOptions options;
  if (training.max_steps > 0) {
    steps = std::min(steps, training.max_steps);
    options.max_steps = training.max_steps;
  }
  const std::unique_ptr<train::Reporter> reporter =
      begin_training(training, session, per_epoch, steps);
  // Ranks that are threads receive one signal together, so only rank 0 looks for it.
  if (session.rank.main() || !session.rank.one_process) {
    options.stop = [&] { return training.stop->pending(); };
    options.stop_after_checkpoint = [&] { return training.stop->after_checkpoint(); };
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
    announce_end(session, result, file, best, training.max_steps, *reporter);
  }
  reporter->finish();
  if (session.rank.main()) training.stop->everything_is_saved();
  return result.signal == 0 ? 0 : 128 + result.signal;
}

}  // namespace runtime::session
