// The meeting point of the ranks of one fake communicator, which are threads of one process and
// exchange addresses.
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

// One collective: the calls of its ranks until all have arrived, then its result. Guarded by the
// hub's mutex.
struct Meeting {
  std::vector<rt_collective> calls;  // by rank
  std::vector<bool> arrived;
  bool done = false;
  rt_status status = RT_OK;
  std::string message;
};

// All methods may be called from any thread.
class Hub {
 public:
  Hub(std::string name, int32_t world_size) : name_(std::move(name)), world_size_(world_size) {}

  const std::string& name() const { return name_; }
  int32_t world_size() const { return world_size_; }

  // Adds a rank's call to its meeting. The rank that arrives last does the work for all, so that
  // this function never waits. Calls match by their number; sends and receives match by pair of
  // ranks and number.
  std::shared_ptr<Meeting> enter(int32_t rank, const rt_collective& call);

  // Waits for the meeting. Returns true if it is done, or throws if it failed; returns false if the
  // deadline passed first. abort() makes all meetings fail that are not done.
  bool wait(const std::shared_ptr<Meeting>& meeting, Deadline deadline);

  void abort();
  bool aborted();

 private:
  using Key = std::tuple<int32_t, int32_t, uint64_t>;  // source and destination (-1: all), number
  Key key_of(int32_t rank, const rt_collective& call);

  const std::string name_;
  const int32_t world_size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::shared_ptr<Meeting>> open_;
  std::map<std::tuple<int32_t, int32_t, int32_t>, uint64_t> numbers_;  // rank, source, destination
  bool aborted_ = false;
};

// Returns the hub of this name. The first caller makes it, and it is destroyed with its last user.
// Ranks are threads, so the table of hubs is global to the process: the only global of this plugin.
std::shared_ptr<Hub> find_hub(const std::string& name, int32_t world_size);

// Does a collective for `calls`, those of all ranks, which must agree; for a send and receive these
// are two calls. Throws rt::sdk::Error for an unknown type or reduction.
void carry_out(const std::vector<rt_collective>& calls);

}  // namespace fake

#endif  // TESTS_PLUGINS_FAKE_COMMUNICATOR_HUB_H_
