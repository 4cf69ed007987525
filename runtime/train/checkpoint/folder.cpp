// Writes manifests and checksums, publishes folders by renaming, and removes old ones.
#include "runtime/train/checkpoint/folder.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "runtime/data/crc32.h"
#include "runtime/data/source.h"
#include "runtime/error.h"
#include "runtime/system/atomic_file.h"

namespace runtime::train {

namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;
constexpr char kPrefix[] = "step-";
// The manifest is JSON whose first member is the checksum of the second: {"crc32":"01234567",
// "manifest":{...}}, with these texts between them.
constexpr char kBeforeDigits[] = R"({"crc32":")", kBehindDigits[] = R"(","manifest":)";
constexpr char kLast[] = "}\n";

std::string digits(uint32_t crc) {
  char text[9];
  std::snprintf(text, sizeof(text), "%08x", crc);
  return text;
}

uint32_t crc_of(const std::string& text) { return data::crc32(text.data(), text.size()); }

[[noreturn]] void damaged(const fs::path& file, const std::string& what) {
  throw DataError(file.string() + ": " + what +
                  "; the checkpoint is damaged: resume from another one (runtime checkpoint info "
                  "lists them)");
}

// A name that a manifest may mention: a file in the folder itself.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && !name.starts_with('.');
}

Manifest parse_body(const std::string& body, const fs::path& file) {
  Manifest manifest;
  try {
    const auto j = nlohmann::json::parse(body);
    if (j.at("format") != kFormat) {
      throw DataError(file.string() + ": the checkpoint has format " + j.at("format").dump() +
                      "; this program reads format " + std::to_string(kFormat) +
                      "; use the program that has written it");
    }
    manifest.state = parse_saved_state(j.at("state").dump(), file.string());
    for (const auto& f : j.at("files")) {
      const auto crc = std::stoul(f.at("crc32").get<std::string>(), nullptr, 16);
      manifest.files.push_back({f.at("name").get<std::string>(), f.at("bytes").get<uint64_t>(),
                                static_cast<uint32_t>(crc)});
      if (!is_plain_name(manifest.files.back().name)) damaged(file, "it names no file of its own");
    }
  } catch (const nlohmann::json::exception& error) {
    damaged(file, std::string("it cannot be read: ") + error.what());
  } catch (const std::logic_error&) {  // of stoul
    damaged(file, "a checksum is no number");
  }
  return manifest;
}

// A name under which nobody looks for a checkpoint.
fs::path hidden(const fs::path& checkpoint) {
  return checkpoint.parent_path() / ("." + checkpoint.filename().string() + ".old.tmp");
}

// The checkpoints that have a monitored value, the best first.
std::vector<std::pair<double, fs::path>> by_rating(const fs::path& folder, const Retention& keep) {
  std::vector<std::pair<double, fs::path>> rated;
  for (const fs::path& path : list_checkpoints(folder)) {
    try {
      const SavedState state = read_manifest(path).state;
      const std::optional<double> value = state.monitored;
      if (value && std::isfinite(*value) && state.monitor == keep.monitor)
        rated.emplace_back(larger_is_better(keep.monitor) ? -*value : *value, path);
    } catch (const DataError&) {  // a damaged one is none of the best
    }
  }
  std::stable_sort(rated.begin(), rated.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return rated;
}

}  // namespace

std::string rank_file(int rank) { return "rank-" + std::to_string(rank) + ".safetensors"; }
std::string decisions_file(int rank) { return "rank-" + std::to_string(rank) + ".decisions.json"; }

std::string checkpoint_name(int64_t step) {
  char text[40];
  std::snprintf(text, sizeof(text), "%s%09lld", kPrefix, static_cast<long long>(step));
  return text;
}

int64_t step_of_name(const std::string& name) {
  const std::string number =
      name.starts_with(kPrefix) ? name.substr(std::strlen(kPrefix)) : std::string();
  if (number.empty() || number.size() > 18 ||
      number.find_first_not_of("0123456789") != std::string::npos)
    return -1;
  const int64_t step = std::stoll(number);
  return checkpoint_name(step) == name ? step : -1;
}

SavedFile describe_file(const fs::path& folder, const std::string& name) {
  const data::File file((folder / name).string());
  SavedFile saved{name, file.size(), 0};
  std::vector<std::byte> buffer(std::clamp<uint64_t>(file.size(), 1, uint64_t{1} << 20));
  uint64_t at = 0;
  while (const std::size_t n = file.read_at(at, buffer.data(), buffer.size())) {
    saved.crc32 = data::crc32(buffer.data(), n, saved.crc32);
    at += n;
  }
  saved.bytes = at;
  return saved;
}

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  nlohmann::ordered_json j;
  j["format"] = kFormat;
  j["state"] = nlohmann::ordered_json::parse(to_json(manifest.state));
  j["files"] = nlohmann::ordered_json::array();
  for (const SavedFile& f : manifest.files)
    j["files"].push_back({{"name", f.name}, {"bytes", f.bytes}, {"crc32", digits(f.crc32)}});
  const std::string body = j.dump();
  system::write_file((folder / kManifest).string(),
                     kBeforeDigits + digits(crc_of(body)) + kBehindDigits + body + kLast);
}

Manifest read_manifest(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kManifest;
  constexpr uint64_t kMost = 1 << 28;
  return parse_manifest(data::read_text(path.string(), kMost), path);
}

Manifest parse_manifest(const std::string& text, const fs::path& path) {
  const size_t begin = std::strlen(kBeforeDigits) + 8 + std::strlen(kBehindDigits);
  const size_t end = std::strlen(kLast);
  if (text.size() < begin + end || !text.ends_with(kLast)) damaged(path, "it is cut");
  const std::string body = text.substr(begin, text.size() - begin - end);
  if (text.substr(0, begin) != kBeforeDigits + digits(crc_of(body)) + kBehindDigits)
    damaged(path, "its checksum should be " + digits(crc_of(body)));
  return parse_body(body, path);
}

Manifest verify_checkpoint(const fs::path& checkpoint) {
  Manifest manifest = read_manifest(checkpoint);
  for (const SavedFile& expected : manifest.files) {
    const SavedFile actual = describe_file(checkpoint, expected.name);
    if (actual.bytes != expected.bytes) {
      damaged(checkpoint / expected.name, "it has " + std::to_string(actual.bytes) +
                                              " bytes; expected " + std::to_string(expected.bytes));
    }
    if (actual.crc32 != expected.crc32) {
      damaged(checkpoint / expected.name,
              "its checksum is " + digits(actual.crc32) + "; expected " + digits(expected.crc32));
    }
  }
  return manifest;
}

std::vector<fs::path> list_checkpoints(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (step_of_name(entry.path().filename().string()) >= 0) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    return step_of_name(a.filename().string()) > step_of_name(b.filename().string());
  });
  return found;
}

void publish_checkpoint(const fs::path& temporary, const fs::path& checkpoint) {
  system::sync_folder(temporary.string(), checkpoint.string());
  std::error_code error;
  const bool replaces = fs::exists(fs::symlink_status(checkpoint, error));
  int result = replaces ? ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, checkpoint.c_str(),
                                      RENAME_EXCHANGE)
                        : ::rename(temporary.c_str(), checkpoint.c_str());
  if (result != 0 && replaces && (errno == EINVAL || errno == ENOSYS)) {  // as on NFS
    fs::rename(checkpoint, hidden(checkpoint), error);
    result = ::rename(temporary.c_str(), checkpoint.c_str());
    if (result == 0) fs::remove_all(hidden(checkpoint), error);
  }
  if (result != 0) {
    throw DataError("cannot write " + checkpoint.string() + ": renaming " + temporary.string() +
                    ": " + std::generic_category().message(errno));
  }
  system::sync_folder(checkpoint.parent_path().string(), checkpoint.string());
  if (replaces) fs::remove_all(temporary, error);
}

fs::path best_checkpoint(const fs::path& folder, const Retention& keep) {
  const auto rated = by_rating(folder, keep);
  return rated.empty() ? fs::path{} : rated.front().second;
}

void prune_checkpoints(const fs::path& folder, const Retention& keep, int64_t newest) {
  if (keep.latest == 0) return;
  std::vector<fs::path> list = list_checkpoints(folder);
  std::erase_if(
      list, [&](const fs::path& path) { return step_of_name(path.filename().string()) > newest; });
  const auto rated = by_rating(folder, keep);
  std::set<fs::path> kept;
  for (size_t i = 0; i < list.size() && i < static_cast<size_t>(keep.latest); ++i)
    kept.insert(list[i]);
  for (size_t i = 0; i < rated.size() && i < static_cast<size_t>(keep.best); ++i)
    kept.insert(rated[i].second);
  for (const fs::path& path : list) {
    std::error_code error;
    if (kept.contains(path)) continue;
    fs::rename(path, hidden(path), error);
    if (!error) fs::remove_all(hidden(path), error);
  }
}

void remove_temporary_folders(const fs::path& folder) {
  std::vector<fs::path> left;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with('.')) left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove_all(path, error);
}

}  // namespace runtime::train
