// Fills a folder under another name, and renames it.
#include "runtime/system/atomic_folder.h"

#include <unistd.h>

#include "runtime/error.h"
#include "runtime/system/atomic_file.h"

namespace runtime::system {

namespace fs = std::filesystem;

void write_folder(const std::string& output, const std::function<void(const fs::path&)>& write) {
  fs::path target = fs::absolute(output).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();  // "folder/"
  std::error_code error;
  if (fs::exists(target) && !(fs::is_directory(target) && fs::is_empty(target, error))) {
    throw DataError(output + ": is there already; give the name of a new folder, or remove it");
  }
  const fs::path made = target.parent_path() / ("." + target.filename().string() + "." +
                                                std::to_string(getpid()) + ".tmp");
  fs::create_directories(made, error);
  if (error) throw DataError(output + ": cannot be made: " + error.message());
  try {
    write(made);
    fs::remove(target, error);
    fs::rename(made, target);
    sync_folder(target.parent_path().string(), output);
  } catch (const fs::filesystem_error& failure) {
    fs::remove_all(made, error);
    throw DataError(output + ": cannot be written: " + failure.code().message());
  } catch (...) {
    fs::remove_all(made, error);
    throw;
  }
}

}  // namespace runtime::system
