// Searches folders for runs and checkpoints, and passes damaged ones over.
#include "runtime/train/checkpoint/find.h"

#include <system_error>
#include <vector>

#include "runtime/error.h"
#include "runtime/train/checkpoint/folder.h"

namespace runtime::train {

namespace fs = std::filesystem;

namespace {

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool has_checkpoints(const fs::path& run) { return !list_checkpoints(run / kCheckpoints).empty(); }

}  // namespace

fs::path newest_checkpoint(const fs::path& run_folder,
                           const std::function<void(const std::string&)>& warn) {
  for (const fs::path& path : list_checkpoints(run_folder / kCheckpoints)) {
    try {
      verify_checkpoint(path);
      return path;
    } catch (const DataError& error) {
      warn(std::string("warning: a checkpoint is passed over: ") + error.what());
    }
  }
  return {};
}

bool is_checkpoint(const fs::path& path) { return is_there(path / kManifest); }

fs::path checkpoint_at(const fs::path& path, const std::function<void(const std::string&)>& warn) {
  if (is_checkpoint(path)) {
    verify_checkpoint(path);
    return path;
  }
  fs::path found = newest_checkpoint(path, warn);
  if (!found.empty()) return found;
  throw DataError("--resume " + path.string() +
                  ": there is no whole checkpoint; expected the folder of a checkpoint (" +
                  std::string(kCheckpoints) + "/" + checkpoint_name(100) +
                  ") or of a run that has one; without --resume training begins at step 0");
}

fs::path newest_run(const fs::path& parent) {
  fs::path newest;
  fs::file_time_type time;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    if (!has_checkpoints(entry.path())) continue;
    const fs::file_time_type written = fs::last_write_time(entry.path() / kCheckpoints, error);
    if (newest.empty() || written > time) {
      newest = entry.path();
      time = written;
    }
  }
  return newest;
}

fs::path run_of(const fs::path& path) {
  if (is_there(path / kCheckpoints)) return path;
  const fs::path folder = fs::absolute(path / "").lexically_normal().parent_path().parent_path();
  return folder.filename() == kCheckpoints ? folder.parent_path() : fs::path{};
}

}  // namespace runtime::train
