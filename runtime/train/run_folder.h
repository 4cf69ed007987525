// The folder of a run's files, which keeps runs from replacing files that they were not told to
// replace.
#ifndef RUNTIME_TRAIN_RUN_FOLDER_H_
#define RUNTIME_TRAIN_RUN_FOLDER_H_

#include <filesystem>
#include <string>

#include "runtime/config/config.h"

namespace runtime::train {

// job.dump_folder, or a new outputs/<config name>/<time>. A file ".runtime-run" in the folder marks
// it as made by a run; its lock is held as long as the object lives. Used by one thread, in the
// process of rank 0.
class RunFolder {
 public:
  // `launch` identifies the launcher that has started the ranks and starts them again after a
  // failure, "" if there is none: its attempts are one run, and each may replace the files of the
  // one before. The constructor makes the folder and its parents and changes nothing else in it.
  // Throws ConfigurationError if dump_folder has files of an earlier run and job.overwrite is
  // false, if it has files with a run's names that no run has written, or if another run is using
  // it; DataError if it cannot be written.
  RunFolder(const config::Config& config, const std::string& launch);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // To call once training can begin: writes config.toml and removes the files of an earlier run or
  // attempt except its weights, which are replaced when there are new ones. An attempt begins with
  // step 0, so metrics.jsonl has the lines of one attempt.
  void begin(const config::Config& config);

 private:
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
  Marker marker_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RUN_FOLDER_H_
