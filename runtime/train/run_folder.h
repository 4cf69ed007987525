// Where the files of a run go, so that no run replaces what it has not been told to replace.
#ifndef RUNTIME_TRAIN_RUN_FOLDER_H_
#define RUNTIME_TRAIN_RUN_FOLDER_H_

#include <filesystem>
#include <string>

#include "runtime/config/config.h"

namespace runtime::train {

// job.dump_folder, or a new outputs/<config name>/<time>. A file ".runtime-run" in it says that a
// run has made it; its lock is held as long as the object lives. One thread, in the process of rank
// 0.
class RunFolder {
 public:
  // `launch` names what has started the ranks and starts them again after a failure, "" if nothing
  // has: the attempts are one run, and the next one may replace the files of the one before. Makes
  // the folder and its parents, and changes nothing else in it.
  // Throws ConfigurationError where dump_folder has files of an earlier run and job.overwrite is
  // false, where it has files with the names of a run's that no run has written, and where another
  // run is using it; DataError where it cannot be written.
  RunFolder(const config::Config& config, const std::string& launch);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Once training can begin: writes config.toml, and removes what an earlier run or attempt has
  // written but its weights, which are replaced when there are new ones. An attempt begins with
  // step 0, so the lines of metrics.jsonl are those of one attempt.
  void begin(const config::Config& config);

 private:
  bool open_marker();
  void make_marker();
  void check_contents(const config::Config& config, bool marked) const;
  void write_marker();

  // Open and locked as long as it lives; also gone when a constructor throws.
  struct Marker {
    Marker() = default;
    ~Marker();
    Marker(const Marker&) = delete;
    Marker& operator=(const Marker&) = delete;
    std::filesystem::path file;
    int fd = -1;
    bool unused = false;  // made by this object, and no run has begun: removed at the end
  };

  std::filesystem::path path_;
  const std::string launch_;
  bool same_launch_ = false;  // an earlier attempt of this run has made the folder
  Marker marker_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RUN_FOLDER_H_
