// From a checked file to the entry function of a plugin library: every check that needs no plugin
// code.
#ifndef PLUGINS_HOST_LOADER_H_
#define PLUGINS_HOST_LOADER_H_

#include <filesystem>

#include "plugins/host/trust.h"
#include "rt/plugin.h"

namespace plugins::host {

// check_file for a plugin. Throws Error that begins with "plugin <path>: ".
CheckedFile check_library(const std::filesystem::path& path);

// Opens the library (RTLD_NOW | RTLD_LOCAL; it stays open until the process ends) and finds the
// entry symbol in it - not in one of the libraries it depends on. Throws Error with the loader's
// words; before the loader sees it, for a file that was cut off, which it would map and then fail
// on with SIGBUS, and for one that is not the file that was checked. Runs the library's static
// constructors.
//
// The file is opened by its path without links and not as /proc/self/fd/<n>: $ORIGIN in the
// library, debuggers and profilers need the name, and the loader takes a number that is used again
// for the library it had before. That the path led to the checked file is compared before and
// after; between the two only the users whom check_file trusts could have changed it.
rt_plugin_entry_fn open_library(const CheckedFile& file);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_LOADER_H_
