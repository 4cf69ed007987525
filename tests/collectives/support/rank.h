// Support for the program of a rank: its rank, and a key-value store in a folder.
#ifndef TESTS_COLLECTIVES_SUPPORT_RANK_H_
#define TESTS_COLLECTIVES_SUPPORT_RANK_H_

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "plugins/host/communicator.h"

namespace collectives::testing {

// Environment variables that Job sets.
inline constexpr const char* kRankVariable = "RUNTIME_TEST_RANK";
inline constexpr const char* kRanksVariable = "RUNTIME_TEST_RANKS";
inline constexpr const char* kStoreVariable = "RUNTIME_TEST_STORE";

struct RankPlace {
  int32_t rank = 0;
  int32_t size = 1;
  std::filesystem::path store;
};

// Reads the variables above, or those of Open MPI or MPICH. Throws std::runtime_error if none are
// set.
RankPlace rank_place();

// A key-value store with one file per key in `folder`, which is created. Other processes see a
// value completely or not at all.
plugins::host::HostServices file_store(const std::filesystem::path& folder);

// Loads the plugin and joins the communicator of all ranks of the job.
std::shared_ptr<plugins::host::Communicator> join(
    const RankPlace& place, const std::filesystem::path& plugin,
    const std::map<std::string, std::string>& options = {},
    std::chrono::nanoseconds timeout = std::chrono::seconds(60),
    std::shared_ptr<plugins::host::Device> device = nullptr);

}  // namespace collectives::testing

#endif  // TESTS_COLLECTIVES_SUPPORT_RANK_H_
