// Ranks for the checks of communicators: where each is, and what it runs.
#ifndef PLUGINS_CHECK_RANKS_H_
#define PLUGINS_CHECK_RANKS_H_

#include <chrono>
#include <filesystem>
#include <string>

#include "plugins/check/context.h"

namespace plugins::check {

// How long ranks wait for each other, and how long one run of all cases may take.
inline constexpr std::chrono::seconds kRankTimeout{60};

// One rank of a run.
struct Place {
  int32_t rank = 0;
  int32_t size = 1;
  std::filesystem::path store;  // a folder that all ranks share
};

// Reads rank and size from the variables of Open MPI or MPICH. Throws std::runtime_error if there
// are none.
Place place_under_mpi(const std::filesystem::path& store);

// Runs all cases on one rank, in this process; the other ranks do the same. Returns the text of
// their results, which begins with "failed" if a case failed.
std::string run_rank(const Setup& setup, const std::shared_ptr<host::Plugin>& plugin,
                     const Place& place);

// The whole program of a rank that is a process: runs all cases and writes the text to the file
// <store>/result.<rank>.
void run_rank_process(const Setup& setup, const Place& place);

}  // namespace plugins::check

#endif  // PLUGINS_CHECK_RANKS_H_
