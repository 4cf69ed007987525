// Where the ranks of one fake communicator meet: threads of one process that hand each other
// addresses.
#ifndef TESTS_PLUGINS_FAKE_COMMUNICATOR_HUB_H_
#define TESTS_PLUGINS_FAKE_COMMUNICATOR_HUB_H_

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "rt/communicator.h"

namespace fake {

using Deadline = std::chrono::steady_clock::time_point;

// One collective: the calls of its ranks until all are there, then how it ended. Guarded by the
// hub's mutex.
struct Meeting {
  std::vector<rt_collective> calls;  // by rank
  std::vector<bool> arrived;
  bool done = false;
  rt_status status = RT_OK;
  std::string message;
};

// Thread-safe.
class Hub {
 public:
  Hub(std::string name, int32_t world_size) : name_(std::move(name)), world_size_(world_size) {}

  const std::string& name() const { return name_; }
  int32_t world_size() const { return world_size_; }

  // Adds a rank's call to its meeting. The last rank to come does the work for all, so nobody
  // waits in here. Ranks meet by the number of the call, send and receive by pair and number.
  std::shared_ptr<Meeting> enter(int32_t rank, const rt_collective& call);

  // True: done; then throws if it failed. False: the deadline passed first. A communicator that
  // was aborted fails what is not done.
  bool wait(const std::shared_ptr<Meeting>& meeting, Deadline deadline);

  void abort();
  bool aborted();

 private:
  using Key = std::tuple<int32_t, int32_t, uint64_t>;  // source, destination (-1: all), number
  Key key_of(int32_t rank, const rt_collective& call);

  const std::string name_;
  const int32_t world_size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::shared_ptr<Meeting>> open_;
  std::map<std::tuple<int32_t, int32_t, int32_t>, uint64_t> numbers_;  // rank, source, destination
  bool aborted_ = false;
};

// The hub of a name; made by whoever comes first, gone with its last user. Ranks are threads, so
// the place where they find each other belongs to the process: the one global of this plugin.
std::shared_ptr<Hub> find_hub(const std::string& name, int32_t world_size);

// Carries out a collective; `calls` of all ranks agree. Send and receive: two calls. Throws
// rt::sdk::Error for a type or reduction that it does not know.
void carry_out(const std::vector<rt_collective>& calls);

}  // namespace fake

#endif  // TESTS_PLUGINS_FAKE_COMMUNICATOR_HUB_H_
