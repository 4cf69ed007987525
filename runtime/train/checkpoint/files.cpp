// Reads files locally, or has rank 0 read and send them.
#include "runtime/train/checkpoint/files.h"

#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "runtime/data/safetensors_checksum.h"
#include "runtime/data/source.h"
#include "runtime/error.h"
#include "runtime/exec/texts.h"
#include "runtime/system/available_memory.h"

namespace runtime::train {

namespace {

namespace fs = std::filesystem;

std::string read_whole(const fs::path& path) {
  const std::unique_ptr<data::RawSource> file = data::open_file(path.string());
  system::require_memory(file->limit(), path.string(), "use a machine with more memory");
  std::string text(file->limit(), '\0');
  file->read_exactly(text.data(), text.size(), "the file");
  return text;
}

// The same for all who see one file, also through a network, and another one for a copy.
std::string identity_of(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return "";
  return std::to_string(status.st_ino) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
         std::to_string(status.st_mtim.tv_nsec);
}

// Whether this rank sees the checkpoint that has this manifest in the folder. `identity` is that of
// the manifest of rank 0.
bool sees(const fs::path& folder, const std::string& manifest_text, const Manifest& manifest,
          const std::string& identity) {
  std::error_code error;
  try {
    if (read_whole(folder / kManifest) != manifest_text) return false;
    for (const SavedFile& file : manifest.files)
      if (fs::file_size(folder / file.name, error) != file.bytes || error) return false;
    if (identity_of(folder / kManifest) != identity) verify_checkpoint(folder);
  } catch (const DataError&) {  // there is none, or it is a damaged copy
    return false;
  }
  return true;
}

// Several texts as one, each behind its length, and back. A single one may be a whole file, and is
// not copied.
std::string joined(std::vector<std::string> texts) {
  if (texts.size() == 1) return std::move(texts[0]);
  std::string all;
  for (const std::string& text : texts) all += std::to_string(text.size()) + " " + text;
  return all;
}

std::vector<std::string> divided(std::string all, size_t count) {
  std::vector<std::string> texts(count);
  if (count == 1) {
    texts[0] = std::move(all);
    return texts;
  }
  size_t at = 0;
  for (std::string& text : texts) {
    const size_t space = all.find(' ', at);
    const size_t bytes = std::stoull(all.substr(at, space - at));
    text = all.substr(space + 1, bytes);
    at = space + 1 + bytes;
  }
  return texts;
}

}  // namespace

CheckpointFiles::CheckpointFiles(fs::path folder, exec::Collectives* collectives, OnMain on_main)
    : folder_(std::move(folder)), collectives_(collectives), on_main_(std::move(on_main)) {
  if (collectives == nullptr) return;
  const std::string text = this->text(kManifest);
  const std::string identity = exec::broadcast_text(identity_of(folder_ / kManifest), collectives);
  double all = sees(folder_, text, parse_manifest(text, folder_ / kManifest), identity) ? 1 : 0;
  collectives->all_reduce(&all, 1, RT_MIN);
  through_rank_0_ = all != 1;
}

std::vector<std::string> CheckpointFiles::texts(const std::vector<std::string>& names) const {
  return of_rank_0(names.size(), [&](size_t i) { return read_whole(folder_ / names[i]); });
}

data::TensorFile CheckpointFiles::tensors(const std::string& name) const {
  const std::string path = (folder_ / name).string();
  if (!through_rank_0()) return data::read_safetensors(path);
  const std::string bytes = text(name);
  return data::parse_safetensors(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(),
                                 path);
}

Manifest CheckpointFiles::manifest() const {
  return parse_manifest(text(kManifest), folder_ / kManifest);
}

std::vector<data::TensorHeader> CheckpointFiles::headers(
    const std::vector<SavedFile>& files) const {
  const auto path = [&](size_t i) { return (folder_ / files[i].name).string(); };
  std::vector<std::string> texts = of_rank_0(files.size(), [&](size_t i) {
    return data::read_tensor_header(*data::open_file(path(i))).text;
  });
  std::vector<data::TensorHeader> headers;
  for (size_t i = 0; i < files.size(); ++i) {
    const uint64_t before = data::kLengthSize + texts[i].size();
    headers.push_back(data::parse_tensor_header(
        std::move(texts[i]), files[i].bytes - std::min(before, files[i].bytes), path(i)));
  }
  return headers;
}

void CheckpointFiles::agree(const std::string& fault) const {
  double any = fault.empty() ? 0 : 1;
  if (collectives_ != nullptr) collectives_->all_reduce(&any, 1, RT_MAX);
  if (any == 0) return;
  std::string first;
  for (const std::string& of_rank : exec::gather_texts(fault, collectives_))
    if (first.empty()) first = of_rank;
  throw DataError(exec::broadcast_text(std::move(first), collectives_));
}

// Rank 0 reads while the others wait outside of a collective, because a disk may be slow.
std::vector<std::string> CheckpointFiles::of_rank_0(
    size_t count, const std::function<std::string(size_t)>& read) const {
  const auto read_all = [&] {
    std::vector<std::string> texts;
    for (size_t i = 0; i < count; ++i) texts.push_back(read(i));
    return texts;
  };
  if (collectives_ == nullptr) return read_all();
  std::string all, fault;
  on_main_("reading the checkpoint", [&] {
    try {
      all = joined(read_all());
    } catch (const DataError& error) {
      fault = error.what();
    }
  });
  agree(fault);
  return divided(exec::broadcast_text(std::move(all), collectives_), count);
}

}  // namespace runtime::train
