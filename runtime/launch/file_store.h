// A folder as key-value store, with one file for each key. The folder may be on a file system that
// several hosts share.
#ifndef RUNTIME_LAUNCH_FILE_STORE_H_
#define RUNTIME_LAUNCH_FILE_STORE_H_

#include <atomic>
#include <filesystem>

#include "runtime/launch/store.h"

namespace runtime::launch {

// Throws as Store does.
class FileStore : public Store {
 public:
  // Makes the folder, for this user alone, if it does not exist. Removes files of stores that are
  // older than a day.
  explicit FileStore(const std::filesystem::path& folder);
  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> try_get(const std::string& key) override;
  // Rings by a named pipe beside the file, or asks five times a second if other machines may share
  // the folder's file system.
  std::unique_ptr<watch::Bell> bell(const std::string& key) override;
  std::string description() const override { return "folder " + folder_.string(); }

 private:
  std::filesystem::path path_of(const std::string& key) const;
  std::filesystem::path pipe_of(const std::string& key) const { return path_of(key + "/bell"); }
  void ring(const std::string& key) const;
  void remove_old_files() const;
  [[noreturn]] void fail(const std::string& doing, int error, const std::string& remedy) const;

  std::filesystem::path folder_;
  std::string temporary_;  // beginning of the names of this store's temporary files
  std::atomic<unsigned> count_ = 0;
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_FILE_STORE_H_
