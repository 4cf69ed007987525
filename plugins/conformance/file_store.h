// A key-value store in a folder, by which the ranks of the communicator checks meet.
#ifndef PLUGINS_CONFORMANCE_FILE_STORE_H_
#define PLUGINS_CONFORMANCE_FILE_STORE_H_

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "plugins/host/plugin.h"

namespace plugins::conformance {

// Writes a file that other processes see completely or not at all.
void write_whole(const std::filesystem::path& file, const std::string& text);

// Returns kv_set and kv_get over `folder`, which is created, with one file for each key. Any thread
// and process. kv_get throws host::Error (RT_ERROR_TIMEOUT) if the key does not exist in time.
host::HostServices file_store(const std::filesystem::path& folder);

// Returns rank and number of ranks as the variables of Open MPI or MPICH say; nullopt if mpiexec
// has set neither.
std::optional<std::pair<int32_t, int32_t>> rank_under_mpi();

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_FILE_STORE_H_
