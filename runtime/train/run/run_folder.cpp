// Claims the folder of a run, and says which files in it may be replaced.
#include "runtime/train/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <system_error>
#include <vector>

#include "runtime/error.h"
#include "runtime/system/atomic_file.h"
#include "runtime/train/checkpoint/find.h"
#include "runtime/train/checkpoint/folder.h"

namespace runtime::train {

namespace {

namespace fs = std::filesystem;

constexpr char kMarker[] = ".runtime-run";
// First line of the marker; the second is the launch.
constexpr char kFirstLine[] = "runtime run 1\n";
constexpr char kConfiguration[] = "config.toml";
constexpr char kWeights[] = "weights.safetensors", kAverage[] = "average.safetensors";
constexpr char kMetrics[] = "metrics.jsonl", kScaling[] = "scaling.json";
constexpr char kRanks[] = "ranks";
// These are the results of a run. A folder without any of them has nothing to lose.
constexpr std::array<const char*, 11> kResults = {
    kWeights,      kAverage,       kMetrics,     kScaling, kCheckpoints, "metrics.csv",
    "tensorboard", "profile.json", "trace.json", kRanks,   kUnsaved};

[[noreturn]] void cannot_write(const fs::path& folder, int error) {
  throw DataError(folder.string() + ": cannot write the folder of the run (" +
                  std::generic_category().message(error) +
                  "); set job.dump_folder to a folder that can be written");
}

void make_folders(const fs::path& folder) {
  if (const std::error_code error = system::make_folders(folder.string()))
    cannot_write(folder, error.value());
}

std::string name_of_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char time[32];
  std::strftime(time, sizeof(time), "%Y%m%d-%H%M%S", &local);
  return time;
}

// Where the folders of runs without dump_folder lie.
fs::path parent_of_runs(const std::string& config_name) {
  return fs::path("outputs") / config_name;
}

// If several runs begin in the same second, only one of them makes a folder of that name.
fs::path make_new_folder(const fs::path& parent) {
  make_folders(parent);
  const std::string time = name_of_now();
  for (int i = 1;; ++i) {
    fs::path folder = parent / (i == 1 ? time : time + "-" + std::to_string(i));
    std::error_code error;
    if (fs::create_directory(folder, error)) {
      system::sync_folder(parent.string(), folder.string());
      return folder;
    }
    if (error && error != std::errc::file_exists) cannot_write(folder, error.value());
  }
}

// The first existing file of those that a run writes, "" if there is none. Symbolic links count,
// empty files and folders do not.
std::string found_in(const fs::path& folder, bool with_configuration) {
  std::error_code ignored;
  const auto there = [&](const char* name) {
    const fs::file_status status = fs::symlink_status(folder / name, ignored);
    return fs::exists(status) && !((fs::is_regular_file(status) || fs::is_directory(status)) &&
                                   fs::is_empty(folder / name));
  };
  for (const char* name : kResults) {
    if (there(name)) return name;
  }
  return with_configuration && there(kConfiguration) ? kConfiguration : "";
}

std::string read_all(int fd) {
  std::string text(4096, '\0');
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  text.resize(size < 0 ? 0 : static_cast<size_t>(size));
  return text;
}

}  // namespace

fs::path RunFolder::of_configuration(const fs::path& path) {
  if (path.filename() != kConfiguration) return {};
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code ignored;
  for (const fs::path& run : {folder, run_of(folder)})
    if (!run.empty() && fs::exists(run / kMarker, ignored)) return run;
  return {};
}

RunFolder::RunFolder(const config::Config& config, const std::string& launch) : launch_(launch) {
  const fs::path parent = parent_of_runs(config.name), earlier = earlier_run(config, parent);
  path_ = config.job.dump_folder;
  if (path_.empty()) path_ = earlier;
  if (path_.empty()) path_ = make_new_folder(parent);
  make_folders(path_);
  std::error_code ignored;
  goes_on_ = config.checkpoint.resumes_newest() ||
             (!earlier.empty() && fs::equivalent(path_, earlier, ignored));
  marker_.file = path_ / kMarker;
  const bool marked = open_marker();
  check_contents(config, marked);
  if (!marked) make_marker();
}

// The folder of the run that goes on, or of an earlier attempt of the same launcher; empty: none.
fs::path RunFolder::earlier_run(const config::Config& config, const fs::path& parent) const {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    std::string first, second;
    std::ifstream marker(entry.path() / kMarker);
    if (!launch_.empty() && std::getline(marker, first) && std::getline(marker, second) &&
        second == launch_)
      return entry.path();
  }
  const std::string& resume = config.checkpoint.resume;
  if (resume.empty()) return {};
  return config.checkpoint.resumes_newest() ? newest_run(parent) : run_of(resume);
}

RunFolder::Marker::~Marker() {
  // If a marked folder without a run were left behind, the next run would take any files there for
  // its own.
  if (unused) ::unlink(file.c_str());
  if (fd >= 0) ::close(fd);
}

// Opens and locks the marker of an earlier run; returns false if there is none.
bool RunFolder::open_marker() {
  marker_.fd = ::open(marker_.file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (marker_.fd < 0 && errno == ENOENT) return false;
  if (marker_.fd < 0) cannot_write(path_, errno);
  // On a file system without locks only the contents are checked.
  if (::flock(marker_.fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw ConfigurationError("job.dump_folder = \"" + path_.string() +
                             "\" is in use by another run; wait for its end, or set "
                             "job.dump_folder to another folder");
  }
  const std::string text = read_all(marker_.fd);
  same_launch_ = !launch_.empty() && text == kFirstLine + launch_ + "\n";
  return true;
}

void RunFolder::make_marker() {
  marker_.fd =
      ::open(marker_.file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (marker_.fd < 0 && errno != EEXIST) cannot_write(path_, errno);
  if (marker_.fd < 0 || (::flock(marker_.fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)) {
    throw ConfigurationError("job.dump_folder = \"" + path_.string() +
                             "\" was just taken by another run; set it to another folder");
  }
  marker_.unused = true;
}

void RunFolder::check_contents(const config::Config& config, bool marked) const {
  const std::string found = found_in(path_, !marked);
  if (found.empty() || same_launch_) return;
  // Weights without a checkpoint are those of a run that has ended and cannot go on.
  if (marked && goes_on_ && (found != kWeights || !list_checkpoints(path_ / kCheckpoints).empty()))
    return;
  const std::string what = "job.dump_folder = \"" + path_.string() + "\" holds " + found;
  if (!marked) {
    throw ConfigurationError(
        what + ", and no run of this program has marked the folder as its own (" + kMarker +
        "); set job.dump_folder to another folder, or move that file away");
  }
  if (config.job.overwrite) return;
  throw ConfigurationError(
      what + " of an earlier run; set job.dump_folder to another folder, or say " +
      (list_checkpoints(path_ / kCheckpoints).empty() ? ""
                                                      : "--resume auto to go on with it, or ") +
      "--set job.overwrite=true to replace the files of that run");
}

void RunFolder::write_marker() {
  const std::string text = kFirstLine + launch_ + "\n";
  if (::ftruncate(marker_.fd, 0) != 0) cannot_write(path_, errno);
  for (size_t done = 0; done < text.size();) {
    const ssize_t written =
        ::pwrite(marker_.fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (written < 0 && errno != EINTR) cannot_write(path_, errno);
    if (written > 0) done += static_cast<size_t>(written);
  }
}

fs::path RunFolder::find_checkpoint(const config::Config& config,
                                    const std::function<void(const std::string&)>& warn) const {
  const std::string& resume = config.checkpoint.resume;
  const bool automatic = config.checkpoint.resumes_newest();
  const bool own = resume.empty() || automatic;
  if (resume.empty() && !same_launch_) return {};
  const bool any = !list_checkpoints(path_ / kCheckpoints).empty();
  fs::path newest = any && (goes_on_ || same_launch_) ? newest_checkpoint(path_, warn) : fs::path{};
  if (own && any && newest.empty()) {
    throw DataError((path_ / kCheckpoints).string() +
                    ": none of the checkpoints is whole, so that training cannot go on; look at "
                    "the warnings, or set job.dump_folder to another folder to begin at step 0");
  }
  if (automatic && !any && fs::exists(path_ / kUnsaved)) {
    throw DataError("--resume auto: " + path_.string() +
                    " has no checkpoint, because its run could not save one (" + kUnsaved +
                    " in it says why); set job.dump_folder to a folder that all machines share, or "
                    "begin at step 0 without --resume (job.overwrite = true replaces the files)");
  }
  if (own || (same_launch_ && !newest.empty())) return newest;
  fs::path found = checkpoint_at(resume, warn);
  std::error_code ignored;
  if (newest.empty() || !is_checkpoint(resume) || fs::equivalent(found, newest, ignored))
    return found;
  throw DataError("--resume " + resume + ": the run has a newer checkpoint, " + newest.string() +
                  "; go on from that (--resume auto), or set job.dump_folder to another folder, in "
                  "which training goes on from the older one");
}

void RunFolder::begin(const config::Config& config, std::optional<uint64_t> metrics_bytes) {
  std::error_code ignored;
  write_marker();
  for (const char* name : kResults) {
    const bool stays = name == kWeights || name == kAverage || (metrics_bytes && name != kScaling);
    if (!stays) fs::remove_all(path_ / name, ignored);
  }
  if (metrics_bytes && fs::file_size(path_ / kMetrics, ignored) > *metrics_bytes && !ignored)
    fs::resize_file(path_ / kMetrics, *metrics_bytes, ignored);
  config::Config saved = config;
  saved.checkpoint.resume.clear();  // whoever trains with this file begins anew
  system::write_file((path_ / kConfiguration).string(), config::to_toml(saved));
  marker_.unused = false;
}

}  // namespace runtime::train
