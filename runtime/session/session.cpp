// Opens ranks, device, data and trainer of a command, and goes on from a checkpoint if asked to.
#include "runtime/session/session.h"

#include <chrono>
#include <cstdlib>
#include <future>
#include <iostream>
#include <set>

#include "plugins/host/error.h"
#include "runtime/analysis/memory_advice.h"
#include "runtime/config/entries.h"
#include "runtime/error.h"
#include "runtime/launch/open_device.h"
#include "runtime/launch/plugin_tables.h"
#include "runtime/step/ranks.h"
#include "runtime/train/checkpoint/find.h"
#include "runtime/train/options.h"

namespace runtime::session {

namespace {

// Returns what must be the same on all ranks: the configuration without the sections that belong to
// a machine, and the size of the data.
std::vector<std::string> common_items(const Session& s) {
  const std::set<std::string> own = {"job", "plugins", "device", "launch", "metrics"};
  std::vector<std::string> items;
  for (const config::Entry& entry : config::entries(s.config)) {
    const std::string section = entry.key.substr(0, entry.key.find('.'));
    if (own.contains(section) || entry.key == "comm.interface") continue;
    items.push_back(entry.key + " = " + entry.value);
  }
  items.push_back("training data: " + s.data.train->description());
  return items;
}

// Rank 0 looks for the checkpoint, which may take long, and tells the others.
std::string agreed_checkpoint(const launch::Rank& rank,
                              const std::function<std::string()>& find_checkpoint) {
  if (!find_checkpoint) return {};
  std::string found;
  rank.on_main("checking the checkpoint", [&] { found = find_checkpoint(); });
  return rank.broadcast_text(std::move(found));
}

// Runs `work`. If device memory is exhausted, the trainer is released, and the error is thrown
// again with sizes and a batch that fits.
template <class Work>
void with_memory_advice(Session& session, Work&& work) {
  std::string words;
  try {
    return work();
  } catch (const plugins::host::Error& error) {
    if (error.code() != RT_ERROR_OUT_OF_MEMORY) throw;
    words = error.what();
  }
  session.trainer.reset();
  session.programs.reset();
  std::string advice;
  try {
    advice =
        analysis::memory_advice(session.planner(), session.config, session.rank.place.world_size);
  } catch (const std::exception& error) {
    advice = std::string("What would fit could not be found out: ") + error.what();
  }
  throw DeviceError(words + ". " + advice);
}

}  // namespace

data::DatasetPair Datasets::get(const launch::Rank& rank, const config::Config& config) {
  std::call_once(once_, [&] {
    use_.shared = rank.place.local_size > 1 && !rank.one_process;
    pair_ = train::open_data(config, std::getenv("RUNTIME_DATA_PATH"), rank.registry.get(), use_);
  });
  return pair_;
}

Session::Session(const launch::Rank& r, Datasets& datasets,
                 const std::function<std::string()>& find_checkpoint)
    : rank(r), config(step::resolve_ranks(r.config, r.place.world_size)) {
  // Reading the data and opening the device take about equally long and are independent, so they
  // run at the same time.
  std::future<data::DatasetPair> reading =
      std::async(std::launch::async, [&] { return datasets.get(rank, config); });
  device = rank.device;
  choice = rank.device_choice;
  if (device == nullptr)
    device = launch::open_device(config, *rank.registry, rank.place.local_rank, &choice);
  fallback = launch::open_fallback(config, *rank.registry, *device, rank.place.local_rank);
  data = reading.get();
  trains = !datasets.of_weights();
  if (rank.collectives != nullptr)
    rank.collectives->compare("item of the configuration", common_items(*this));
  const std::string path = agreed_checkpoint(rank, find_checkpoint);
  if (find_checkpoint && config.checkpoint.resumes_newest())
    train::check_newest(std::filesystem::path(rank.run_folder) / train::kCheckpoints,
                        rank.collectives);
  if (!path.empty()) {
    resumed = train::open_checkpoint(
        path, rank.collectives,
        [this](const char* what, const std::function<void()>& work) { rank.on_main(what, work); });
    resume_notes = train::check_resumable(*resumed, config, *data.train);
    if (const std::string& saved = resumed->manifest.state.preparation; !saved.empty())
      data::check_same(data::parse_preparation(saved, path), data.preparation, path);
  }
  with_memory_advice(*this, [&] { open_trainer(); });
}

void Session::open_trainer() {
  exec::CompileOptions options = train::compile_options(config, fallback);
  options.collectives = rank.collectives;
  if (resumed) options = train::with_decisions(options, *resumed, rank.place.rank);
  data::SampleSpec spec = data.train->spec();
  spec.preparation = data::to_json(data.preparation);
  train::RankSetup setup(config, spec, device, options);
  if (resumed) train::take_decisions(setup, *resumed);
  programs = std::make_shared<train::StepPrograms>(std::move(setup));
  trainer = std::make_unique<train::Trainer>(programs);
  if (!resumed) return;
  train::restore(*resumed, programs->rank_model());
  trainer->set_steps_done(resumed->manifest.state.step);
}

analysis::Planner make_planner(const config::Config& config, const data::DatasetPair& data,
                               std::shared_ptr<plugins::host::Device> device,
                               std::shared_ptr<plugins::host::Device> fallback,
                               const launch::PlannedRanks& ranks) {
  analysis::Planner p;
  p.spec = data.train->spec();
  p.device = std::move(device);
  p.options = train::compile_options(config, std::move(fallback));
  p.cluster = parallel::one_node(ranks.link);
  p.share_device = ranks.one_process;
  p.evaluates = data.validation != nullptr &&
                (config.validation.every_epochs > 0 || config.validation.every_steps > 0);
  return p;
}

analysis::Planner Session::planner() const {
  analysis::Planner p = make_planner(config, data, device, fallback,
                                     launch::planned_ranks(*rank.registry, rank.backend));
  p.trains = trains;
  p.evaluates |= !trains;
  return p;
}

int64_t count_trainable(const std::vector<model::Parameter>& parameters) {
  int64_t count = 0;
  for (const model::Parameter& parameter : parameters) {
    if (parameter.trainable) count += graph::element_count(parameter.file_dims);
  }
  return count;
}

analysis::SearchProgress search_progress() {
  using Clock = std::chrono::steady_clock;
  return [said = Clock::now()](size_t done, size_t all, const parallel::Mesh& next) mutable {
    constexpr std::chrono::seconds kSilence{5};
    if (Clock::now() - said < kSilence) return;
    said = Clock::now();
    std::cerr << "parallelism.search: " << done << " of " << all
              << " meshes are examined; next: " << to_string(next) << std::endl;
  };
}

void print_notes(const data::DatasetPair& data) {
  for (const std::string& note : data.notes) std::cerr << "note: " << note << '\n';
}

void print_notes(const train::StepPrograms& programs) {
  for (const std::string& note : programs.notes()) std::cerr << "note: " << note << '\n';
}

void print_unused_tables(const config::Config& config, const plugins::host::Registry& registry) {
  for (const std::string& sentence : launch::check_plugin_tables(config, registry.plugins()))
    std::cerr << "note: " + sentence + "\n";
}

std::optional<analysis::Candidate> agree_on_mesh(launch::Job& job, Datasets& datasets) {
  std::optional<analysis::Candidate> chosen;
  job.agree_on_mesh([&](const launch::Rank& rank, int world_size) {
    const auto device =
        launch::open_device(rank.config, *rank.registry, rank.place.local_rank, nullptr);
    const auto fallback =
        launch::open_fallback(rank.config, *rank.registry, *device, rank.place.local_rank);
    const analysis::Planner planner =
        make_planner(rank.config, datasets.get(rank, rank.config), device, fallback,
                     launch::planned_ranks(*rank.registry, rank.backend));
    const auto list = analysis::search(rank.config, world_size, planner, search_progress());
    chosen = analysis::best_of(list);
    return chosen->config.parallelism;
  });
  return chosen;
}

int on_each_rank(launch::Job& job, Datasets& datasets,
                 const std::function<std::string()>& find_checkpoint,
                 const std::function<void(Session&)>& body) {
  return job.on_each_rank([&](launch::Rank& rank) {
    if (rank.place.rank == 0) print_unused_tables(rank.config, *rank.registry);
    Session session(rank, datasets, find_checkpoint);
    with_memory_advice(session, [&] { body(session); });
  });
}

int run_sessions(const config::Config& config, plugins::host::HostServices services,
                 const std::vector<std::string>& arguments,
                 const std::function<void(Session&)>& body, const train::DataUse& use) {
  launch::Job job(config, std::move(services));
  if (!job.runs_here()) return job.start_processes(arguments);
  job.join();
  Datasets datasets(use);
  agree_on_mesh(job, datasets);
  return on_each_rank(job, datasets, nullptr, body);
}

}  // namespace runtime::session
