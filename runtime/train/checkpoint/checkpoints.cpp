// Decides when to save, what a resumed run must share with the saved one, and which one is the
// best.
#include "runtime/train/checkpoint/checkpoints.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/config/entries.h"
#include "runtime/data/fingerprint.h"
#include "runtime/data/source.h"
#include "runtime/error.h"
#include "runtime/exec/texts.h"
#include "runtime/train/checkpoint/rank_state.h"

namespace runtime::train {

namespace {

namespace fs = std::filesystem;

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// Names what decides how numbers are rounded.
std::string environment_of(const RankModel& model) {
  const plugins::host::Device& device = *model.setup().device;
  return device.id() + " (" + device.properties().name + "), " +
         std::to_string(device.properties().threads) + " threads, " + device.plugin().build_id();
}

// Returns what each of so many ranks has decided.
std::vector<std::map<std::string, std::string>> read_decisions(const CheckpointFiles& files,
                                                               int ranks) {
  std::vector<std::string> names;
  for (int rank = 0; rank < ranks; ++rank) names.push_back(decisions_file(rank));
  std::vector<std::map<std::string, std::string>> decisions;
  for (const std::string& text : files.texts(names)) {
    try {
      decisions.push_back(nlohmann::json::parse(text).get<std::map<std::string, std::string>>());
    } catch (const nlohmann::json::exception& error) {
      throw DataError((files.path() / names[decisions.size()]).string() +
                      ": the decisions cannot be read: " + error.what());
    }
  }
  return decisions;
}

// Gives the rank those of `held`. What all ranks of the data axis have is read by the one that
// would write it, and sent to the others, unless rank 0 reads for all. `statistics_of`: see
// assemble().
void read_state(RankModel& model, const std::vector<HeldTensor>& held, const CheckpointFiles& files,
                const Manifest& manifest, int statistics_of) {
  const step::Strategy& mine = model.setup().strategy;
  const bool shares =
      mine.mesh.data > 1 && files.collectives() != nullptr && !files.through_rank_0();
  std::vector<WantedSlice> wanted = wanted_slices(held);
  for (size_t i = 0; i < held.size(); ++i)
    wanted[i].sent = shares && held[i].writer >= 0 && held[i].writer != mine.place.data;
  Assembly state = assemble(files, manifest, std::move(wanted), statistics_of);
  for (size_t i = 0; i < held.size() && shares; ++i) {
    if (held[i].writer < 0) continue;
    constexpr uint64_t kPiece = uint64_t{64} << 20;  // so that no collective takes long
    std::vector<std::byte>& bytes = state.bytes(i);
    for (uint64_t at = 0; at < bytes.size(); at += kPiece)
      files.collectives()->broadcast(bytes.data() + at, std::min(kPiece, bytes.size() - at),
                                     held[i].writer, parallel::kGradientsCommunicator);
  }
  write_state(model, held, state);
}

// The values of a configuration by their keys.
std::map<std::string, std::string> by_key(const std::vector<config::Entry>& entries) {
  std::map<std::string, std::string> map;
  for (const config::Entry& entry : entries) map[entry.key] = entry.value;
  return map;
}

// Whether training with another value would be another training.
bool must_be_same(const std::string& key) {
  static const std::set<std::string>& free = *new std::set<std::string>{
      "model.init_from",     "model.init_except",       "model.init_append",
      "dataset.prefetch",    "dataset.workers",         "dataset.path",
      "dataset.target_path", "dataset.validation_path", "dataset.validation_target_path"};
  static const std::set<std::string>& same = *new std::set<std::string>{
      "optimizer.name", "training.global_batch_size", "training.loss", "debug.seed"};
  // [[dataset.input]] names files, whose contents the fingerprint tells.
  if (key.starts_with("dataset.input")) return false;
  if (key.starts_with("model.") || key.starts_with("dataset.")) return !free.contains(key);
  return same.contains(key);
}

// Whether a difference is of no interest: it belongs to the machine or to what is printed.
bool is_ignored(const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  static const std::set<std::string>& ignored =
      *new std::set<std::string>{"job", "plugins", "metrics", "checkpoint", "launch", "profiling"};
  return ignored.contains(section) || key.starts_with("model.init_");
}

std::vector<double> best_of(const std::vector<double>& values, int64_t count) {
  std::vector<double> best = values;
  std::sort(best.begin(), best.end());
  best.resize(std::min(best.size(), static_cast<size_t>(count)));
  return best;
}

// Whether a checkpoint is that of a validation. A folder may still have a checkpoint of the same
// step from another attempt.
bool is_of(const fs::path& checkpoint, const BestValidation& best, const Retention& keep) {
  try {
    const SavedState state = read_manifest(checkpoint).state;
    return state.monitor == keep.monitor && state.monitored == best.value;
  } catch (const DataError&) {  // a damaged one is none of the best
    return false;
  }
}

fs::path find_best(const std::vector<fs::path>& folders, const BestValidation& best,
                   const Retention& keep) {
  for (const fs::path& folder : folders) {
    fs::path checkpoint = folder / checkpoint_name(best.step);
    if (is_of(checkpoint, best, keep)) return checkpoint;
  }
  fs::path found;
  double value = std::nan("");
  for (const fs::path& folder : folders) {
    const fs::path checkpoint = best_checkpoint(folder, keep);
    if (checkpoint.empty()) continue;
    const double other = *read_manifest(checkpoint).state.monitored;
    if (!is_better(other, value, larger_is_better(keep.monitor))) continue;
    found = checkpoint;
    value = other;
  }
  return found;
}

// Whether a tensor belongs to the model, and not to its optimizer.
bool is_of_model(const HeldTensor& tensor) {
  return tensor.name.starts_with(kParametersGroup) || tensor.name.starts_with(kStatisticsGroup);
}

}  // namespace

Resumed open_checkpoint(const fs::path& path, exec::Collectives* collectives, OnMain on_main) {
  CheckpointFiles files(path, collectives, std::move(on_main));
  Manifest manifest = files.manifest();
  return {std::move(files), std::move(manifest)};
}

void check_newest(const fs::path& folder, exec::Collectives* collectives) {
  if (collectives == nullptr) return;
  const std::vector<fs::path> list = list_checkpoints(folder);
  const int64_t own = list.empty() ? -1 : step_of_name(list.front().filename().string());
  std::vector<int64_t> steps(collectives->world_size());
  collectives->all_gather(&own, steps.data(), sizeof(own));
  const auto newest = std::max_element(steps.begin(), steps.end());
  if (*newest <= steps[0]) return;
  throw DataError(
      "--resume auto: " +
      collectives->watchdog().options().names.of(static_cast<int>(newest - steps.begin())) +
      " sees " + (folder / checkpoint_name(*newest)).string() + ", which " +
      collectives->watchdog().options().names.of(0) +
      " does not see, so that the run would go on from " +
      (steps[0] < 0 ? "step 0" : "step " + std::to_string(steps[0])) +
      "; start the ranks so that rank 0 is on the machine that has the newest "
      "checkpoint, or copy the folder to that of rank 0");
}

exec::CompileOptions with_decisions(exec::CompileOptions options, const Resumed& from, int rank) {
  const int saved = from.manifest.state.mesh.size();
  auto by_rank = read_decisions(from.files, saved);
  std::map<std::string, std::string> all;
  if (rank < saved) all = by_rank[rank];
  for (auto& of_rank : by_rank) all.merge(of_rank);
  options.target.decisions = std::make_shared<exec::DecisionBook>(std::move(all));
  return options;
}

void take_decisions(RankSetup& setup, const Resumed& from) {
  const SavedState& state = from.manifest.state;
  step::Strategy& strategy = setup.strategy;
  if (state.mesh.data == strategy.mesh.data && setup.config.parallelism.by_speed())
    strategy.batch.weights = state.speeds;
  if (state.mesh.pipeline == strategy.mesh.pipeline && strategy.mesh.pipeline > 1)
    strategy.pipeline.stages = state.stages;
}

std::vector<std::string> check_resumable(const Resumed& from, const config::Config& config,
                                         const data::Dataset& dataset) {
  auto saved = by_key(config::entries(from.files.text(kSavedConfiguration),
                                      (from.path() / kSavedConfiguration).string()));
  const auto now = by_key(config::entries(config));
  // A program that did not know a key yet has trained as the key's default says.
  for (const config::Entry& entry : config::entries(config::Config())) {
    if (now.contains(entry.key)) saved.emplace(entry.key, entry.value);
  }
  std::set<std::string> keys;
  for (const auto& lines : {saved, now}) {
    for (const auto& [key, value] : lines) keys.insert(key);
  }
  const auto value_in = [](const std::map<std::string, std::string>& lines,
                           const std::string& key) {
    const auto found = lines.find(key);
    return found == lines.end() ? std::string("unset") : found->second;
  };
  std::vector<std::string> notes;
  std::string faults;
  for (const std::string& key : keys) {
    const std::string a = value_in(saved, key), b = value_in(now, key);
    if (a == b || is_ignored(key)) continue;
    const std::string line = key + " is " + b + "; in the checkpoint it is " + a;
    if (must_be_same(key)) {
      faults += "\n  " + line;
    } else {
      notes.push_back(line);
    }
  }
  const std::string data = data::fingerprint(dataset);
  if (data != from.manifest.state.data)
    faults +=
        "\n  the training data have " + data + "; in the checkpoint " + from.manifest.state.data;
  if (faults.empty()) return notes;
  throw DataError(from.path().string() + ": training cannot go on with these differences:" +
                  faults + "\n  use the configuration of the checkpoint (" +
                  (from.path() / kSavedConfiguration).string() +
                  "), or start a new run from its weights: runtime checkpoint export " +
                  from.path().string() + " --output weights.safetensors");
}

void restore(const Resumed& from, RankModel& model) {
  const SavedState& saved = from.manifest.state;
  const step::Strategy& mine = model.setup().strategy;
  // Each rank of the data axis goes on with its own statistics; another number of ranks with those
  // of the first, which an evaluation takes.
  const int statistics_of = saved.mesh.data == mine.mesh.data ? mine.place.data : 0;
  read_state(model, held_tensors(model), from.files, from.manifest, statistics_of);
}

void restore_owned(const Resumed& from, RankModel& model) {
  std::vector<HeldTensor> held = held_tensors(model);
  std::erase_if(held, is_of_model);
  read_state(model, held, from.files, from.manifest, 0);
}

std::optional<int64_t> restore_best(const std::vector<fs::path>& folders,
                                    const BestValidation& best, const SaverOptions& options,
                                    RankModel& model) {
  fs::path found;
  std::string fault;
  options.on_main("looking for the best checkpoint", [&] {
    try {
      found = find_best(folders, best, options.keep);
      if (!found.empty()) verify_checkpoint(found);
    } catch (const DataError& error) {
      fault = error.what();
    }
  });
  if (fault = exec::broadcast_text(std::move(fault), model.setup().collectives()); !fault.empty())
    throw DataError(fault);
  found = exec::broadcast_text(found.string(), model.setup().collectives());
  if (found.empty()) return std::nullopt;
  const CheckpointFiles files(found, model.setup().collectives(), options.on_main);
  const Manifest manifest = files.manifest();
  std::vector<HeldTensor> held = held_tensors(model);
  std::erase_if(held, [](const HeldTensor& tensor) { return !is_of_model(tensor); });
  read_state(model, held, files, manifest, 0);
  return manifest.state.step;
}

Checkpoints::Checkpoints(const config::Config& config, RankModel& model,
                         const data::Dataset& dataset, int64_t steps_per_epoch,
                         SaverOptions options, const Resumed* from)
    : config_(config.checkpoint),
      monitor_(config.validation.monitor),
      model_(model),
      steps_per_epoch_(steps_per_epoch),
      data_(data::fingerprint(dataset)),
      note_(options.note),
      saver_(model, std::move(options)) {
  if (from == nullptr) return;
  resumed_step_ = from->manifest.state.step;
  if (from->manifest.state.monitor == monitor_)
    best_ = best_of(from->manifest.state.best, config_.keep_best);
}

bool Checkpoints::has(int64_t step) const {
  return step == saver_.last_step() || step == resumed_step_;
}

bool Checkpoints::due(int64_t step, bool minutes_passed) const {
  if (has(step)) return false;
  return minutes_passed || among_best_ || put_off_ ||
         (config_.interval_steps > 0 && step % config_.interval_steps == 0) ||
         (config_.interval_epochs > 0 && step % (config_.interval_epochs * steps_per_epoch_) == 0);
}

bool Checkpoints::put_off(int64_t step) {
  if (among_best_) return false;  // a later step has other weights than those that were validated
  if (!put_off_) {
    note_("note: the checkpoint of step " + std::to_string(step) + " waits for the one of step " +
          std::to_string(saver_.last_step()) + ", which is still being written");
  }
  put_off_ = true;
  return true;
}

int64_t Checkpoints::next_due(int64_t step) const {
  const auto next = [&](int64_t interval) {
    return interval > 0 ? (step / interval + 1) * interval : std::numeric_limits<int64_t>::max();
  };
  return std::min(next(config_.interval_steps), next(config_.interval_epochs * steps_per_epoch_));
}

bool Checkpoints::minutes_passed() const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - last_;
  return config_.interval_minutes > 0 && elapsed.count() >= config_.interval_minutes * 60;
}

void Checkpoints::validated(int64_t step, double value) {
  monitored_ = {step, value};
  const double rating = larger_is_better(monitor_) ? -value : value;
  if (config_.keep_best == 0 || !std::isfinite(rating)) return;
  best_.push_back(rating);
  best_ = best_of(best_, config_.keep_best + 1);
  among_best_ = best_.size() <= static_cast<size_t>(config_.keep_best) || rating < best_.back();
  best_ = best_of(best_, config_.keep_best);
}

void Checkpoints::save(SavedState state) {
  state.steps_per_epoch = steps_per_epoch_;
  const step::Strategy& strategy = model_.setup().strategy;
  state.mesh = strategy.mesh;
  state.speeds = strategy.batch.weights;
  state.stages = strategy.pipeline.stages;
  if (monitored_.first == state.step) state.monitored = monitored_.second;
  state.best = best_;
  state.data = data_;
  state.preparation = model_.setup().spec.preparation;
  state.environment = environment_of(model_);
  state.created = time_text();
  saver_.save(state);
  among_best_ = put_off_ = false;
  last_ = std::chrono::steady_clock::now();
}

}  // namespace runtime::train
