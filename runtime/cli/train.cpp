// The command train: a training run from its configuration to its last file.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "runtime/cli/commands.h"
#include "runtime/error.h"
#include "runtime/launch/device_watch.h"
#include "runtime/launch/environment.h"
#include "runtime/session/training.h"
#include "runtime/train/plugin_records.h"

namespace runtime::cli {

namespace {

// Returns what is said to a person who stops the run. Only rank 0 says it.
train::StopSignal::Texts stop_texts(const config::Config& config) {
  const launch::RankEnvironment place = launch::detect();
  if (place.rank != 0) return {};
  const bool saves = config.checkpoint.any();
  const std::string before = saves ? "the newest checkpoint is one that was whole before"
                                   : "there is no checkpoint to go on from";
  return {std::string("stopping after this step, then saving the weights") +
              (saves ? " and a checkpoint" : "") +
              "; a second signal ends the program at once without them",
          "a second signal, so that the program ends at once; what was not saved yet is lost, " +
              before,
          std::max(place.world_size, config.launch.ranks) > 1
              ? "the ranks that get this signal write their last collectives into the folder of "
                "the run; "
                "runtime diagnose says from them for whom the ranks wait"
              : "this run has one rank, which waits for no other"};
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

config::Config configuration_of(const TrainArguments& arguments) {
  config::Config config = arguments.config.load();
  if (!arguments.weights.empty()) config.model.init_from = arguments.weights;
  if (!arguments.resume.empty()) config.checkpoint.resume = arguments.resume;
  const config::Checkpoint& c = config.checkpoint;
  if (c.resumes_newest()) {  // the weights are those of step 0
    take_folder_of_run(arguments.config, config);
  } else if (!c.resume.empty() && !config.model.init_from.empty()) {
    throw ConfigurationError("--resume " + c.resume + " and the weights " + config.model.init_from +
                             " are two beginnings; leave one of them out");
  }
  return config;
}

void tell(const std::string& text) { std::cerr << text << std::endl; }

}  // namespace

void run_train(const TrainArguments& arguments, Outcome& outcome) {
  const config::Config config = configuration_of(arguments);
  // It holds the lock of the folder until the plugins have ended.
  session::Training training{config, arguments.max_steps};
  const auto pending = [&] { return training.stop ? training.stop->pending() : 0; };
  launch::Job job(config, host_services([&] { return pending() != 0; }), /*writes=*/true);
  if (!job.runs_here()) {
    outcome.exit_code = job.start_processes(outcome.arguments);
    return;
  }
  training.stop.emplace(stop_texts(config), launch::device_silence);
  job.answer([&] { return training.stop->questions(); });
  try {
    job.join();
    session::Datasets datasets;
    if (const auto chosen = session::agree_on_mesh(job, datasets)) {
      training.config.parallelism = chosen->config.parallelism;
      training.choice =
          fmt::format("parallelism.search takes {} (predicted {:.3f} ms a step)",
                      to_string(chosen->mesh), chosen->plan.prediction.times.step() * 1e3);
    }
    job.agree_on_folder([&] {
      const char* const launch = std::getenv(launch::kLaunchVariable);
      training.folder.emplace(training.config, launch == nullptr ? "" : launch);
      return training.folder->path().string();
    });
    int signal_code = 0;
    const int code = session::on_each_rank(
        job, datasets,
        [&] { return training.folder->find_checkpoint(training.config, tell).string(); },
        [&](session::Session& s) {
          const int own = session::train_on_rank(s, training);
          if (s.rank.main() || !s.rank.one_process) signal_code = own;
        });
    outcome.exit_code = code != 0 ? code : signal_code;
  } catch (const train::ReadingStopped& stopped) {
    if (pending() == 0) throw;
    tell(stopped.what());
    outcome.exit_code = 128 + pending();
  }
}

}  // namespace runtime::cli
