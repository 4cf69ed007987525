#include "tests/collectives/support/rank.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

namespace collectives::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;
namespace host = plugins::host;

constexpr std::pair<const char*, const char*> kVariables[] = {
    {kRankVariable, kRanksVariable},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"}};

// File names are encoded, because keys contain slashes.
std::string file_name(const std::string& key) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string name;
  for (const char c : key) {
    name += kDigits[static_cast<unsigned char>(c) >> 4];
    name += kDigits[c & 15];
  }
  return name;
}

std::optional<std::string> read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

}  // namespace

RankPlace rank_place() {
  const char* store = std::getenv(kStoreVariable);
  for (const auto& [rank, size] : kVariables) {
    if (std::getenv(rank) == nullptr || std::getenv(size) == nullptr) continue;
    return {std::atoi(std::getenv(rank)), std::atoi(std::getenv(size)), store ? store : ""};
  }
  throw std::runtime_error("no variable says which rank this is; start it by Job");
}

host::HostServices file_store(const fs::path& folder) {
  fs::create_directories(folder);
  host::HostServices services;
  services.kv_set = [folder](const std::string& key, const std::string& value) {
    const fs::path file = folder / file_name(key);
    const fs::path incomplete = file.string() + "." + std::to_string(::getpid());
    std::ofstream(incomplete, std::ios::binary) << value;
    fs::rename(incomplete, file);
  };
  services.kv_get = [folder](const std::string& key, std::chrono::nanoseconds timeout) {
    const auto deadline = Clock::now() + timeout;
    for (;;) {
      if (auto value = read(folder / file_name(key))) return *value;
      if (Clock::now() >= deadline) {
        throw host::Error(RT_ERROR_TIMEOUT, "key '" + key + "' was not set in time");
      }
      std::this_thread::sleep_for(1ms);
    }
  };
  return services;
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
