// The sentences before the first step and after the last one.
#include "runtime/session/announcements.h"

#include <cstring>

#include "runtime/config/advice.h"
#include "runtime/session/summary.h"
#include "runtime/train/open.h"
#include "runtime/train/run/run_folder.h"

namespace runtime::session {

namespace {

// With fewer samples for each rank most of a device's lanes are idle, and the communication does
// not pay.
constexpr int64_t kFewSamples = 16;

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

}  // namespace

void announce_begin(const Session& s, train::Reporter& reporter) {
  if (!s.choice.empty()) reporter.note(s.choice);
  for (const std::string& sentence : config::advice(s.config))
    reporter.note("warning: " + sentence);
  for (const std::string& sentence : {train::batch_advice(s.config, *s.data.train),
                                      train::target_advice(s.config, *s.data.train)})
    if (!sentence.empty()) reporter.note("warning: " + sentence);
  reporter.note(
      "training " + s.config.name + " on " + s.device->id() + " (" + s.device->properties().name +
      "): " + std::to_string(count_trainable(s.programs->rank_model().values().parameters)) +
      " parameters, " + s.data.train->description());
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

void announce_end(const Session& session, const train::RunResult& result, const std::string& file,
                  const std::string& best, int64_t max_steps, train::Reporter& reporter) {
  if (result.signal != 0) {
    reporter.note(unfinished_epoch(result) + "stopped by SIG" +
                  std::string(sigabbrev_np(result.signal)) + " after step " +
                  std::to_string(result.steps) + "; weights saved: " + file);
    if (session.config.checkpoint.any())
      reporter.note("go on with: runtime train " + session.rank.run_folder +
                    "/config.toml --resume auto");
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
  reporter.note(summary(result, session.config.validation.monitor, session.rank.run_folder));
  const std::string nothing = nothing_left(session, result, max_steps);
  if (!nothing.empty()) reporter.note(nothing);
  reporter.note("done: " + std::to_string(result.steps) + " steps, weights: " + file +
                "\nnext: runtime " +
                (session.data.train->spec().labels > 1 ? "predict " : "evaluate ") +
                session.rank.run_folder + "/config.toml --weights " + best);
}

}  // namespace runtime::session
