// The folder of a run's files, which keeps runs from replacing files that they were not told to
// replace.
#ifndef RUNTIME_TRAIN_RUN_RUN_FOLDER_H_
#define RUNTIME_TRAIN_RUN_RUN_FOLDER_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "runtime/config/config.h"

namespace runtime::train {

// job.dump_folder, or a new outputs/<config name>/<time>. A file ".runtime-run" in the folder marks
// it as made by a run; its lock is held as long as the object lives. Used by one thread, in the
// process of rank 0.
class RunFolder {
 public:
  // The folder of the run that has saved the configuration file `path`, its own or that of a
  // checkpoint; empty if no run has.
  static std::filesystem::path of_configuration(const std::filesystem::path& path);

  // `launch` identifies the launcher that has started the ranks and starts them again after a
  // failure, "" if there is none: its attempts are one run, and each goes on in the folder of the
  // one before. With checkpoint.resume the folder is that of the run that goes on, unless
  // dump_folder names another one. The constructor makes the folder and its parents and changes
  // nothing else in it. Throws ConfigurationError if dump_folder has files of an earlier run that
  // does not go on and job.overwrite is false, if it has files with a run's names that no run has
  // written, or if another run is using it; DataError if it cannot be written.
  RunFolder(const config::Config& config, const std::string& launch);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // The checkpoint to go on from; empty: none, training begins at step 0. Reads every byte of it.
  // Damaged ones are passed over with a line to `warn`. Throws DataError if the one that
  // checkpoint.resume names is damaged or not there, if all are damaged, or if the folder has a
  // newer one than that which is named, whose run would be mixed up with this one; also if the run
  // that is to go on could not be saved (kUnsaved), so that it would begin anew without a word.
  std::filesystem::path find_checkpoint(const config::Config& config,
                                        const std::function<void(const std::string&)>& warn) const;

  // To call once training can begin: writes config.toml and removes the files of an earlier run or
  // attempt except its weights, which are replaced when there are new ones. If training goes on
  // from a checkpoint in this folder, only scaling.json is removed, and metrics.jsonl keeps its
  // first `metrics_bytes` bytes, those of the steps that are not made again.
  void begin(const config::Config& config, std::optional<uint64_t> metrics_bytes = std::nullopt);

 private:
  std::filesystem::path earlier_run(const config::Config& config,
                                    const std::filesystem::path& parent) const;
  bool open_marker();
  void make_marker();
  void check_contents(const config::Config& config, bool marked) const;
  void write_marker();

  // The open and locked marker; closed also when the constructor throws.
  struct Marker {
    Marker() = default;
    ~Marker();
    Marker(const Marker&) = delete;
    Marker& operator=(const Marker&) = delete;
    std::filesystem::path file;
    int fd = -1;
    bool unused = false;  // made by this object for a run that has not begun: removed at the end
  };

  std::filesystem::path path_;
  const std::string launch_;
  bool same_launch_ = false;  // an earlier attempt of this run has made the folder
  bool goes_on_ = false;      // the folder is that of the run that checkpoint.resume names
  Marker marker_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RUN_RUN_FOLDER_H_
