// Tells a test's process its rank, and gives its plugin a store of files.
#include "tests/collectives/support/rank.h"

#include <cstdlib>
#include <stdexcept>

#include "plugins/conformance/file_store.h"

namespace collectives::testing {

namespace fs = std::filesystem;
namespace host = plugins::host;

RankPlace rank_place() {
  const char* const store = std::getenv(kStoreVariable);
  const std::string folder = store != nullptr ? store : "";
  const char *rank = std::getenv(kRankVariable), *ranks = std::getenv(kRanksVariable);
  if (rank != nullptr && ranks != nullptr) return {std::atoi(rank), std::atoi(ranks), folder};
  if (const auto place = plugins::conformance::rank_under_mpi())
    return {place->first, place->second, folder};
  throw std::runtime_error("no variable says which rank this is; start it by Job");
}

host::HostServices file_store(const fs::path& folder) {
  return plugins::conformance::file_store(folder);
}

std::shared_ptr<host::Communicator> join(const RankPlace& place, const fs::path& plugin,
                                         const std::map<std::string, std::string>& options,
                                         std::chrono::nanoseconds timeout,
                                         std::shared_ptr<host::Device> device) {
  return host::Communicator::create(host::Plugin::load(plugin, file_store(place.store)),
                                    {.rank = place.rank,
                                     .world_size = place.size,
                                     .local_rank = place.rank,
                                     .prefix = "test",
                                     .device = std::move(device),
                                     .timeout = timeout,
                                     .options = options});
}

}  // namespace collectives::testing
