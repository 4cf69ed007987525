// Implements the host's key-value store by files that are renamed into place.
#include "plugins/conformance/file_store.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include "plugins/host/error.h"

namespace plugins::conformance {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// File names are encoded, because keys contain slashes.
std::string file_name(const std::string& key) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string name = "key.";
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

void write_whole(const fs::path& file, const std::string& text) {
  const fs::path incomplete = file.string() + "." + std::to_string(::getpid());
  std::ofstream(incomplete, std::ios::binary) << text;
  fs::rename(incomplete, file);
}

host::HostServices file_store(const fs::path& folder) {
  fs::create_directories(folder);
  host::HostServices services;
  services.kv_set = [folder](const std::string& key, const std::string& value) {
    write_whole(folder / file_name(key), value);
  };
  services.kv_get = [folder](const std::string& key, std::chrono::nanoseconds timeout) {
    const auto deadline = Clock::now() + timeout;
    for (;;) {
      if (auto value = read(folder / file_name(key))) return *value;
      if (Clock::now() >= deadline)
        throw host::Error(RT_ERROR_TIMEOUT, "key '" + key + "' was not set in time");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  return services;
}

std::optional<std::pair<int32_t, int32_t>> rank_under_mpi() {
  constexpr std::pair<const char*, const char*> kVariables[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}};
  for (const auto& [rank, size] : kVariables) {
    const char *r = std::getenv(rank), *s = std::getenv(size);
    if (r != nullptr && s != nullptr) return std::pair(std::atoi(r), std::atoi(s));
  }
  return std::nullopt;
}

}  // namespace plugins::conformance
