// The ranks of a job as threads with the communicator `local`, each with its own watchdog.
#ifndef TESTS_RUNTIME_EXEC_LOCAL_RANKS_H_
#define TESTS_RUNTIME_EXEC_LOCAL_RANKS_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "plugins/host/communicator.h"
#include "runtime/exec/collectives.h"
#include "tests/runtime/watch/ranks.h"

namespace runtime::exec {

using Communicators = std::vector<std::shared_ptr<plugins::host::Communicator>>;

struct LocalRank {
  int rank, world_size;
  watch::Watchdog& watchdog;
  Collectives& collectives;  // communicators 0 to 3, of which 1 to 3 are split from 0
};

// Runs `body` on every rank; without `groups` each communicator has all ranks. Returns by rank the
// message of what it threw ("" for nothing). As in runtime/launch, a rank that fails aborts the
// communicators of all ranks.
inline std::vector<std::string> on_local_ranks(int world_size,
                                               const std::function<void(LocalRank&)>& body,
                                               bool check = false,
                                               const watch::Groups& groups = {}) {
  const auto plugin = plugins::host::Plugin::load(LOCAL_PLUGIN, {});
  watch::SharedBoard board(world_size);
  std::vector<std::string> errors(world_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      watch::FlightRecorder recorder(rank);
      watch::Watchdog watchdog(recorder, board,
                               {.timeout = std::chrono::seconds(60), .groups = groups});
      const auto job = plugins::host::Communicator::create(
          plugin, {.rank = rank, .world_size = world_size, .prefix = "test"});
      Communicators list = {job};
      for (int c = 1; c < 4; ++c)
        list.push_back(job->split(groups.members ? groups.members(c, rank)[0] : 0, rank,
                                  std::chrono::seconds(30)));
      Collectives collectives(list, rank, world_size, recorder, watchdog, check);
      errors[rank] = watch::message_of([&] {
        watchdog.run([&] {
          LocalRank local{rank, world_size, watchdog, collectives};
          body(local);
        });
      });
      if (errors[rank].empty()) return;
      for (const auto& communicator : list) communicator->abort();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace runtime::exec

#endif  // TESTS_RUNTIME_EXEC_LOCAL_RANKS_H_
