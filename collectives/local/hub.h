// The place where the ranks of an instance of the plugin find each other.
#ifndef COLLECTIVES_LOCAL_HUB_H_
#define COLLECTIVES_LOCAL_HUB_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/local/group.h"

namespace collectives::local {

// Thread-safe.
class Hub {
 public:
  // Returns the communicator of that name once all its ranks have joined. Throws rt::sdk::Error:
  // RT_ERROR_TIMEOUT with the missing ranks; RT_ERROR_INVALID_ARGUMENT if the rank has joined
  // already or ranks disagree about the world size.
  std::shared_ptr<Group> join(const std::string& name, int32_t rank, int32_t size,
                              Deadline deadline);

 private:
  // The ranks of one communicator that have not all joined yet.
  struct Lobby {
    std::vector<bool> present;
    int32_t count = 0;
    std::shared_ptr<Group> group;  // set once all are present
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<Lobby>> lobbies_;
};

}  // namespace collectives::local

#endif  // COLLECTIVES_LOCAL_HUB_H_
