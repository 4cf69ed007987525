// Ranks (threads or processes) that exchange bytes through the host's key-value store: slow, but
// simple and correct.
#ifndef TESTS_COLLECTIVES_SIMULATED_WORLD_H_
#define TESTS_COLLECTIVES_SIMULATED_WORLD_H_

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rt/communicator.h"
#include "rt/plugin.h"
#include "rt/sdk/error.h"

namespace collectives::simulated {

using Bytes = std::vector<std::byte>;

// The view of one rank on one communicator. Functions throw rt::sdk::Error.
class World {
 public:
  World(const rt_host& host, std::string prefix, int32_t rank, int32_t size)
      : host_(host), prefix_(std::move(prefix)), rank_(rank), size_(size) {}

  int32_t rank() const { return rank_; }
  int32_t size() const { return size_; }
  // The name under which the ranks of a call meet. The caller's thread calls this in the order of
  // the calls.
  std::string name_of(const rt_collective& call);
  // Waits for the other ranks and does the collective. `send` and `receive` must be addresses that
  // the host can access.
  void carry_out(const std::string& name, const rt_collective& call, const std::byte* send,
                 std::byte* receive) const;
  std::unique_ptr<World> split(int32_t color, int32_t key);

  void abort() { aborted_ = true; }
  void expect_alive() const;

 private:
  void put(const std::string& key, const std::byte* data, uint64_t bytes) const;
  Bytes take(const std::string& key, uint64_t bytes) const;

  const rt_host& host_;
  const std::string prefix_;
  const int32_t rank_, size_;
  uint64_t calls_ = 0;
  std::map<std::pair<int32_t, int32_t>, uint64_t> transfers_;  // by source and destination
  std::atomic<bool> aborted_ = false;
};

}  // namespace collectives::simulated

#endif  // TESTS_COLLECTIVES_SIMULATED_WORLD_H_
