// From a path to the entry function of a plugin library: every check that needs no plugin code.
#ifndef PLUGINS_HOST_LOADER_H_
#define PLUGINS_HOST_LOADER_H_

#include <filesystem>

#include "rt/plugin.h"

namespace plugins::host {

// Throws Error unless `path` is absolute, without "..", an existing regular file that only its
// owner and group can write, in such a folder. Symbolic links are followed; the target must obey
// as well.
void check_library_path(const std::filesystem::path& path);

// Opens the library (RTLD_NOW | RTLD_LOCAL; it stays open until the process ends) and finds the
// entry symbol in it - not in one of the libraries it depends on. Throws Error with the loader's
// words. Runs the library's static constructors.
rt_plugin_entry_fn open_library(const std::filesystem::path& path);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_LOADER_H_
