// Keeps the groups that are being formed, by prefix, until all ranks of each have come.
#include "collectives/local/hub.h"

#include "rt/sdk/error.h"

namespace collectives::local {
namespace {

using rt::sdk::Error;
using rt::sdk::format;

std::string absent_ranks(const std::vector<bool>& present) {
  std::string ranks;
  for (std::size_t rank = 0; rank < present.size(); ++rank) {
    if (!present[rank]) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  }
  return ranks;
}

}  // namespace

std::shared_ptr<Group> Hub::join(const std::string& name, int32_t rank, int32_t size,
                                 Deadline deadline) {
  const auto self = static_cast<std::size_t>(rank);
  std::unique_lock lock(mutex_);
  std::shared_ptr<Lobby>& entry = lobbies_[name];
  if (!entry) entry = std::make_shared<Lobby>(Lobby{std::vector<bool>(size), 0, nullptr});
  const std::shared_ptr<Lobby> lobby = entry;
  if (static_cast<int32_t>(lobby->present.size()) != size) {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                format("local: communicator '%s' has %zu ranks for others, %d for rank %d",
                       name.c_str(), lobby->present.size(), size, rank));
  }
  if (lobby->present[self]) {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                format("local: communicator '%s' has a rank %d already; every rank joins once",
                       name.c_str(), rank));
  }
  lobby->present[self] = true;
  if (++lobby->count == size) {
    lobby->group = std::make_shared<Group>(size);
    lobbies_.erase(name);
    changed_.notify_all();
  }
  if (changed_.wait_until(lock, deadline, [&] { return lobby->group != nullptr; })) {
    return lobby->group;
  }
  const std::string absent = absent_ranks(lobby->present);
  lobby->present[self] = false;
  if (--lobby->count == 0) lobbies_.erase(name);
  throw Error(RT_ERROR_TIMEOUT,
              format("local: communicator '%s': these of %d ranks did not join in time: %s; ranks "
                     "are threads that share one instance of the plugin",
                     name.c_str(), size, absent.c_str()),
              RT_SCOPE_COMMUNICATOR);
}

}  // namespace collectives::local
