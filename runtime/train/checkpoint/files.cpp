// Reads files locally, or has rank 0 read and send them.
#include "runtime/train/checkpoint/files.h"

#include <exception>
#include <system_error>
#include <utility>

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

// Whether this rank sees the checkpoint that has this manifest in the folder.
bool sees(const fs::path& folder, const std::string& manifest_text, const Manifest& manifest) {
  try {
    if (read_whole(folder / kManifest) != manifest_text) return false;
  } catch (const DataError&) {  // there is none
    return false;
  }
  std::error_code error;
  for (const SavedFile& file : manifest.files) {
    if (fs::file_size(folder / file.name, error) != file.bytes || error) return false;
  }
  return true;
}

}  // namespace

CheckpointFiles::CheckpointFiles(fs::path folder, exec::Collectives* collectives, OnMain on_main)
    : folder_(std::move(folder)), collectives_(collectives), on_main_(std::move(on_main)) {
  if (collectives == nullptr) return;
  const std::string text = text_of_rank_0(kManifest);
  double all = sees(folder_, text, parse_manifest(text, folder_ / kManifest)) ? 1 : 0;
  collectives->all_reduce(&all, 1, RT_MIN);
  if (all == 1) collectives_ = nullptr;
}

std::string CheckpointFiles::text(const std::string& name) const {
  return through_rank_0() ? text_of_rank_0(name) : read_whole(folder_ / name);
}

data::TensorFile CheckpointFiles::tensors(const std::string& name) const {
  const std::string path = (folder_ / name).string();
  if (!through_rank_0()) return data::read_safetensors(path);
  const std::string bytes = text_of_rank_0(name);
  return data::parse_safetensors(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(),
                                 path);
}

Manifest CheckpointFiles::manifest() const {
  return through_rank_0() ? parse_manifest(text_of_rank_0(kManifest), folder_ / kManifest)
                          : read_manifest(folder_);
}

// Rank 0 reads while the others wait outside of a collective, because a disk may be slow.
std::string CheckpointFiles::text_of_rank_0(const std::string& name) const {
  std::string text, fault;
  on_main_("reading the checkpoint", [&] {
    try {
      text = read_whole(folder_ / name);
    } catch (const DataError& error) {
      fault = error.what();
    }
  });
  fault = exec::broadcast_text(std::move(fault), collectives_);
  if (!fault.empty()) throw DataError(fault);
  return exec::broadcast_text(std::move(text), collectives_);
}

}  // namespace runtime::train
