// Opens a plugin library and finds its entry function, with every check that needs no plugin code.
#ifndef PLUGINS_HOST_LOADER_H_
#define PLUGINS_HOST_LOADER_H_

#include <filesystem>

#include "plugins/host/trust.h"
#include "rt/plugin.h"

namespace plugins::host {

// check_file() for a plugin. The message of the Error begins with "plugin <path>: ".
CheckedFile check_library(const std::filesystem::path& path);

// Opens the library (RTLD_NOW | RTLD_LOCAL; it stays open until the process ends) and returns its
// entry function. The library itself must export the symbol, not a library that it depends on.
// Opening runs the static constructors of the library. Throws Error with the loader's message. A
// truncated file is refused before the loader sees it, because the loader would map it and then
// fail with SIGBUS; a file that is not the one that was checked is refused too.
//
// The file is opened by its path without links, not as /proc/self/fd/<n>: $ORIGIN in the library,
// debuggers and profilers need the name, and for a number that is used again the loader returns the
// library that it opened earlier. The path is compared with the checked file before and after; in
// between only users whom check_file trusts could have changed it.
rt_plugin_entry_fn open_library(const CheckedFile& file);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_LOADER_H_
