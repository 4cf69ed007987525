// Runs the communicator checks as one rank, and leaves its result in the folder of the store.
#include "plugins/check/ranks.h"

#include <fmt/format.h>

#include "plugins/conformance/communicator.h"
#include "plugins/conformance/file_store.h"
#include "plugins/host/communicator.h"

namespace plugins::check {

namespace {

namespace fs = std::filesystem;

std::string text_of(const conformance::Summary& summary, const Place& place) {
  if (summary.failed == 0)
    return fmt::format("{} cases, {} not claimed", summary.passed, summary.skipped);
  std::string text = fmt::format("failed: {} of {} cases on rank {} of {}", summary.failed,
                                 summary.failed + summary.passed, place.rank, place.size);
  for (size_t i = 0; i < summary.failures.size() && i < 3; ++i) text += "\n" + summary.failures[i];
  return text;
}

}  // namespace

Place place_under_mpi(const fs::path& store) {
  if (const auto rank = conformance::rank_under_mpi()) return {rank->first, rank->second, store};
  throw std::runtime_error(
      "mpiexec has set neither OMPI_COMM_WORLD_RANK nor PMI_RANK, by which a rank knows its place");
}

std::string run_rank(const Setup& setup, const std::shared_ptr<host::Plugin>& plugin,
                     const Place& place) {
  const auto communicator = host::Communicator::create(plugin, {.rank = place.rank,
                                                                .world_size = place.size,
                                                                .local_rank = place.rank,
                                                                .prefix = "check",
                                                                .timeout = kRankTimeout,
                                                                .options = setup.options});
  return text_of(run_communicator_cases({communicator, place.rank, place.size},
                                        conformance::communicator_cases()),
                 place);
}

void run_rank_process(const Setup& setup, const Place& place) {
  std::string text;
  try {
    text = run_rank(setup, host::Plugin::load(setup.library, conformance::file_store(place.store)),
                    place);
  } catch (const std::exception& error) {
    text = fmt::format("failed: rank {} of {}: {}", place.rank, place.size, error.what());
  }
  conformance::write_whole(place.store / fmt::format("result.{}", place.rank), text);
}

}  // namespace plugins::check
