#include "plugins/host/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "plugins/host/error.h"

namespace plugins::host {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& reason) {
  throw Error(RT_ERROR_UNAVAILABLE, "plugin " + path.string() + ": " + reason);
}

struct stat status_of(const fs::path& plugin, const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    refuse(plugin, "cannot read " + path.string() + ": " + std::strerror(errno));
  }
  return status;
}

// Whoever can write the file, or replace it in its folder, runs code in this process.
void check_writers(const fs::path& plugin, const fs::path& file) {
  const struct stat file_status = status_of(plugin, file);
  if (!S_ISREG(file_status.st_mode)) refuse(plugin, "is not a regular file");
  if (file_status.st_mode & S_IWOTH) {
    refuse(plugin,
           "the file is world-writable, so anybody could have replaced it; run: chmod o-w " +
               file.string());
  }
  const struct stat folder_status = status_of(plugin, file.parent_path());
  if ((folder_status.st_mode & S_IWOTH) && !(folder_status.st_mode & S_ISVTX)) {
    refuse(plugin, "its folder is world-writable without the sticky bit; run: chmod o-w " +
                       file.parent_path().string());
  }
}

std::string loader_words() {
  const char* words = ::dlerror();
  return words != nullptr ? words : "the loader gave no reason";
}

// The library that an address belongs to.
const struct link_map* owner_of(void* address) {
  Dl_info info{};
  void* owner = nullptr;
  if (::dladdr1(address, &info, &owner, RTLD_DL_LINKMAP) == 0) return nullptr;
  return static_cast<const struct link_map*>(owner);
}

}  // namespace

void check_library_path(const fs::path& path) {
  if (!path.is_absolute()) {
    refuse(path,
           "the path is relative; plugins are named by absolute path, so that the current "
           "folder cannot choose the code that runs");
  }
  if (std::find(path.begin(), path.end(), "..") != path.end()) {
    refuse(path, "the path contains '..'; write the folder out");
  }
  check_writers(path, path);
  std::error_code error;
  const fs::path target = fs::canonical(path, error);
  if (error) refuse(path, "cannot be resolved: " + error.message());
  if (target != path) check_writers(path, target);
}

rt_plugin_entry_fn open_library(const fs::path& path) {
  ::dlerror();
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse(path, "cannot be loaded: " + loader_words());
  void* symbol = ::dlsym(library, RT_PLUGIN_ENTRY_SYMBOL);
  if (symbol == nullptr) {
    refuse(path, "is not a plugin of this runtime, it does not export " RT_PLUGIN_ENTRY_SYMBOL
                 ": " +
                     loader_words());
  }
  struct link_map* own = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &own) != 0 || owner_of(symbol) != own) {
    refuse(path, "does not export " RT_PLUGIN_ENTRY_SYMBOL
                 " itself; one of the libraries that it depends on does");
  }
  return reinterpret_cast<rt_plugin_entry_fn>(symbol);
}

}  // namespace plugins::host
