// Copies the state, writes it on a thread, and publishes when all ranks have written.
#include "runtime/train/checkpoint/saver.h"

#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "runtime/data/crc32.h"
#include "runtime/data/source.h"
#include "runtime/error.h"
#include "runtime/exec/texts.h"
#include "runtime/system/atomic_file.h"
#include "runtime/system/available_memory.h"
#include "runtime/train/checkpoint/find.h"
#include "runtime/train/checkpoint/rank_state.h"
#include "runtime/train/options.h"
#include "runtime/train/weights.h"

namespace runtime::train {

namespace {

namespace fs = std::filesystem;

// How long an object that ends waits for files of other ranks.
constexpr std::chrono::seconds kPatienceWithRanks{5};

// The end of the text by which a rank says that its files are written.
constexpr char kEndOfText = '\n';

// Returns the present content of a file that another process may be writing; "" if there is none.
std::string present_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns a text that is the same on all ranks and that no other run has.
std::string make_attempt(const RankModel& model) {
  uint64_t bits = std::random_device{}();
  bits = bits << 32 | std::random_device{}();
  if (model.setup().collectives() != nullptr)
    model.setup().collectives()->broadcast(&bits, sizeof(bits), 0);
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(bits));
  return text;
}

// Rank 0 removes what earlier runs have left before it tells the others the name of this attempt: a
// rank that knows it may write at once.
std::string begin_attempt(int rank, const fs::path& folder, const RankModel& model) {
  if (rank == 0) remove_temporary_folders(folder);
  return make_attempt(model);
}

std::string to_json(const std::vector<SavedFile>& files) {
  auto list = nlohmann::json::array();
  for (const SavedFile& f : files) list.push_back({f.name, f.bytes, f.crc32});
  return list.dump();
}

// Whether every rank can write to the folder, which rank 0 makes. True if rank 0 cannot make it:
// saving then says why.
bool all_see(const fs::path& folder, const RankModel& model, const OnMain& on_main) {
  if (model.setup().collectives() == nullptr) return true;
  const fs::path probe = folder / (".probe." + make_attempt(model) + ".tmp");
  std::error_code error;
  on_main("making the folder of the checkpoints", [&] {
    error = system::make_folders(folder.string());
    if (!std::ofstream(probe)) error = std::make_error_code(std::errc::permission_denied);
  });
  const int rank = model.setup().strategy.mesh.rank_of(model.setup().strategy.place);
  const fs::path own = probe.string() + std::to_string(rank);
  const bool writes = fs::exists(probe) && std::ofstream(own);
  const std::vector<double> any = model.setup().maximum({error ? 1.0 : 0.0, writes ? 0.0 : 1.0});
  fs::remove(own, error);
  fs::remove(probe, error);  // all have looked
  return any[0] != 0 || any[1] == 0;
}

// The bytes that the other ranks send to rank 0 each time; the same on every rank.
uint64_t bytes_sent(RankModel& model) {
  double bytes = 0;
  for (const HeldTensor& held : held_tensors(model, Writers::kFirst)) {
    if (held.writes) bytes += static_cast<double>(held.bytes());
  }
  if (model.setup().strategy.place == parallel::MeshPlace{}) bytes = 0;  // rank 0 sends nothing
  model.setup().collectives()->all_reduce(&bytes, 1, RT_SUM);
  return static_cast<uint64_t>(bytes);
}

// Why rank 0 cannot keep so many bytes, the same on every rank; "": it can.
std::string fault_of_memory(uint64_t bytes, exec::Collectives* collectives) {
  std::string fault;
  try {
    system::require_memory(bytes, "what the other ranks would send to rank 0",
                           "set job.dump_folder to a folder that all machines share");
  } catch (const DataError& error) {
    fault = error.what();
  }
  return exec::broadcast_text(fault, collectives);
}

}  // namespace

std::optional<SaverOptions> agree_on_saving(SaverOptions options, RankModel& model) {
  if (all_see(options.folder, model, options.on_main)) return options;
  options.through_rank_0 = true;
  const uint64_t bytes = bytes_sent(model);
  const std::string unshared = "not every rank sees " + options.folder.string() + ", so that ";
  const std::string fault = fault_of_memory(bytes, model.setup().collectives());
  if (fault.empty()) {
    options.note("note: " + unshared + "rank 0 saves the run there for all of them" +
                 (bytes == 0 ? "" : "; they send it " + system::mib(bytes) + " each time"));
    return options;
  }
  const std::string text = unshared + "the run is saved at its end only, because " + fault;
  options.note("warning: " + text);
  options.on_main("noting that the run is not saved", [&] {
    system::write_file((options.folder.parent_path() / kUnsaved).string(), text + "\n");
  });
  return std::nullopt;
}

CheckpointSaver::CheckpointSaver(RankModel& model, SaverOptions options)
    : model_(model),
      options_(std::move(options)),
      rank_(model.setup().strategy.mesh.rank_of(model.setup().strategy.place)),
      world_size_(model.setup().strategy.mesh.size()),
      attempt_(begin_attempt(rank_, options_.folder, model)),
      kept_(model, options_.through_rank_0 ? Writers::kFirst : Writers::kAll) {}

CheckpointSaver::~CheckpointSaver() {
  ending_ = true;
  if (thread_.joinable()) thread_.join();
  std::error_code ignored;
  if (rank_ == 0 && !settled_ && !failure_.empty()) fs::remove_all(temporary_, ignored);
}

std::string CheckpointSaver::name_of(int rank) const {
  return model_.setup().collectives()->watchdog().options().names.of(rank);
}

fs::path CheckpointSaver::done_file(int rank) const {
  return temporary_ / (".rank-" + std::to_string(rank) + ".done");
}
fs::path CheckpointSaver::failed_file(int rank) const {
  return temporary_ / (".rank-" + std::to_string(rank) + ".failed");
}

void CheckpointSaver::save(const SavedState& state) {
  if (!settle()) {
    options_.note("warning: the checkpoint of step " + std::to_string(last_step_) +
                  " was not saved: " + failure_ +
                  "; training goes on, and the next one is tried as planned");
  }
  kept_.take();
  decisions_ = nlohmann::json(model_.setup().options.target.decisions->all()).dump();
  checkpoint_ = options_.folder / checkpoint_name(state.step);
  temporary_ = options_.folder / ("." + checkpoint_name(state.step) + "." + attempt_ + ".tmp");
  last_step_ = state.step;
  settled_ = false;
  if (options_.through_rank_0) gather();
  busy_ = true;
  thread_ = std::thread([this, state] {
    write(state);
    busy_ = false;
  });
}

// Sends what this rank has to rank 0, which has it in sent_ then.
void CheckpointSaver::gather() {
  exec::Collectives* const collectives = model_.setup().collectives();
  const bool main = rank_ == 0;  // writes its own part as always
  std::string fault, tensors;
  try {
    if (!main) tensors = data::safetensors_text(kept_.file(), rank_file(rank_), inspection());
  } catch (const NumericError& error) {
    fault = error.what();
  }
  sent_.fault = exec::gather_texts(fault, collectives);
  sent_.decisions = exec::gather_texts(main ? "" : decisions_, collectives);
  sent_.tensors = exec::gather_texts(std::move(tensors), collectives);
}

void CheckpointSaver::finish() {
  wait();
  if (settle()) return;
  throw DataError("the checkpoint of step " + std::to_string(last_step_) +
                  " was not saved: " + (failure_.empty() ? "see the message of rank 0" : failure_));
}

void CheckpointSaver::wait() {
  if (settled_) return;
  const auto join = [this] {
    if (thread_.joinable()) thread_.join();
  };
  options_.on_main("writing a checkpoint", join);
  join();
}

// Returns on every rank whether the last checkpoint was saved, which no rank writes any more. A
// failure is told once.
bool CheckpointSaver::settle() {
  if (settled_) return true;
  settled_ = true;
  if (thread_.joinable()) thread_.join();
  const bool failed = model_.setup().maximum({failure_.empty() ? 0.0 : 1.0})[0] != 0;
  std::error_code ignored;
  if (failed && rank_ == 0) fs::remove_all(temporary_, ignored);
  return !failed;
}

void CheckpointSaver::write(const SavedState& state) {
  failure_.clear();
  if (options_.through_rank_0 && rank_ != 0) return;  // rank 0 has everything
  try {
    std::vector<SavedFile> files = write_rank();
    rank_ == 0 ? lead(state, std::move(files)) : tell(files);
  } catch (const std::exception& error) {
    failure_ = error.what();
    std::ofstream(failed_file(rank_)) << failure_;
  }
  sent_ = {};
}

// Returns what refuses numbers that are not to be saved.
data::Inspect CheckpointSaver::inspection() const {
  if (!options_.finite) return nullptr;
  return [](const std::string& name, rt_dtype dtype, const std::byte* block, uint64_t bytes) {
    if (!all_finite(dtype, block, bytes))
      throw NumericError("tensor '" + name + "' has a NaN or an infinity");
  };
}

// Returns what this rank has written.
std::vector<SavedFile> CheckpointSaver::write_rank() const {
  std::error_code error = system::make_folders(temporary_.parent_path().string());
  if (!error) fs::create_directory(temporary_, error);
  if (error)
    throw DataError("cannot write " + temporary_.string() + ": " + error.message() +
                    "; choose a job.dump_folder that can be written");
  // Each core of the rank does a share of the work, so that a step waits for the longest share
  // only.
  const data::WrittenFile written =
      data::write_safetensors((temporary_ / rank_file(rank_)).string(), kept_.file(), inspection(),
                              threads_of_rank(model_.setup().config));
  system::write_file((temporary_ / decisions_file(rank_)).string(), decisions_);
  return {{rank_file(rank_), written.bytes, written.crc32},
          describe_file(temporary_, decisions_file(rank_))};
}

// Tells rank 0 that the files of this rank are written. Rank 0 may rename the folder once the text
// is whole, so nothing follows; the text says nothing that must survive.
void CheckpointSaver::tell(const std::vector<SavedFile>& files) const {
  if (!(std::ofstream(done_file(rank_)) << to_json(files) << kEndOfText << std::flush))
    throw DataError("cannot write " + done_file(rank_).string());
}

// Completes the checkpoint, on rank 0, whose own files are given.
void CheckpointSaver::lead(const SavedState& state, std::vector<SavedFile> files) const {
  system::write_file((temporary_ / kSavedConfiguration).string(), options_.configuration);
  for (int rank = 1; rank < world_size_; ++rank)
    options_.through_rank_0 ? write_of(rank, files) : add_files_of(rank, files);
  Manifest manifest{state, std::move(files)};
  manifest.files.push_back(describe_file(temporary_, kSavedConfiguration));
  if (!options_.metrics_file.empty()) system::sync_file(options_.metrics_file);
  write_manifest(temporary_, manifest);
  publish_checkpoint(temporary_, checkpoint_);
  prune_checkpoints(options_.folder, options_.keep, state.step);
}

// Writes what another rank has sent.
void CheckpointSaver::write_of(int rank, std::vector<SavedFile>& files) const {
  if (!sent_.fault[rank].empty()) throw NumericError(name_of(rank) + ": " + sent_.fault[rank]);
  for (const auto& [name, text] : {std::pair(rank_file(rank), &sent_.tensors[rank]),
                                   std::pair(decisions_file(rank), &sent_.decisions[rank])}) {
    system::write_file((temporary_ / name).string(), *text);
    files.push_back({name, text->size(), data::crc32(text->data(), text->size())});
  }
}

// Waits for the files of another rank.
void CheckpointSaver::add_files_of(int rank, std::vector<SavedFile>& files) const {
  auto given_up = std::chrono::steady_clock::time_point::max();
  std::string text;
  while (!(text = present_text(done_file(rank))).ends_with(kEndOfText)) {
    const auto now = std::chrono::steady_clock::now();
    if (fs::exists(failed_file(rank)))
      throw DataError(name_of(rank) + ": " + data::read_text(failed_file(rank).string()));
    if (model_.setup().collectives() != nullptr) model_.setup().collectives()->watchdog().check();
    if (ending_) given_up = std::min(given_up, now + kPatienceWithRanks);
    if (now > given_up) throw DataError(name_of(rank) + " has not written its part");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (const auto& f : nlohmann::json::parse(text)) files.push_back({f.at(0), f.at(1), f.at(2)});
  fs::remove(done_file(rank));
}

}  // namespace runtime::train
