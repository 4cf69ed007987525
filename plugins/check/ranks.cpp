#include "plugins/check/ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include "plugins/conformance/communicator.h"
#include "plugins/host/communicator.h"
#include "plugins/host/error.h"

namespace plugins::check {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Keys contain slashes, file names do not.
std::string file_name(const std::string& key) {
  std::string name = "key.";
  for (const char c : key) name += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return name;
}

// Other processes see the whole text or nothing.
void write_whole(const fs::path& file, const std::string& text) {
  const fs::path incomplete = fmt::format("{}.{}", file.string(), ::getpid());
  std::ofstream(incomplete, std::ios::binary) << text;
  fs::rename(incomplete, file);
}

std::optional<std::string> read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

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
  constexpr std::pair<const char*, const char*> kVariables[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}};
  for (const auto& [rank, size] : kVariables) {
    const char *r = std::getenv(rank), *s = std::getenv(size);
    if (r != nullptr && s != nullptr) return {std::atoi(r), std::atoi(s), store};
  }
  throw std::runtime_error(
      "mpiexec has set neither OMPI_COMM_WORLD_RANK nor PMI_RANK, by which a rank knows its place");
}

host::HostServices file_store(const fs::path& folder) {
  host::HostServices services;
  services.kv_set = [folder](const std::string& key, const std::string& value) {
    write_whole(folder / file_name(key), value);
  };
  services.kv_get = [folder](const std::string& key, std::chrono::nanoseconds timeout) {
    const auto deadline = Clock::now() + timeout;
    for (;;) {
      if (auto value = read(folder / file_name(key))) return *value;
      if (Clock::now() >= deadline)
        throw host::Error(RT_ERROR_TIMEOUT, "the key '" + key + "' was not set in time");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  return services;
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
    text = run_rank(setup, host::Plugin::load(setup.library, file_store(place.store)), place);
  } catch (const std::exception& error) {
    text = fmt::format("failed: rank {} of {}: {}", place.rank, place.size, error.what());
  }
  write_whole(place.store / fmt::format("result.{}", place.rank), text);
}

}  // namespace plugins::check
