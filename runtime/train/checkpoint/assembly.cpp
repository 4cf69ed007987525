// Copies overlapping slices into tensors, and checks that nothing is missing.
#include "runtime/train/checkpoint/assembly.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "runtime/data/safetensors_checksum.h"
#include "runtime/data/source.h"
#include "runtime/error.h"
#include "runtime/train/weights.h"

namespace runtime::train {

namespace {

// In the metadata of a file, before the name of a tensor that is only a slice.
constexpr char kSliceKey[] = "slice:";
constexpr int kHeadersAtOnce = 16;  // a header of a large model has megabytes

std::map<std::string, std::string> without_slices(std::map<std::string, std::string> metadata) {
  std::erase_if(metadata, [](const auto& entry) { return entry.first.starts_with(kSliceKey); });
  return metadata;
}

// Adds a range to disjoint ranges.
void add_range(std::map<int64_t, int64_t>& ranges, int64_t begin, int64_t end) {
  auto next = ranges.upper_bound(begin);
  if (next != ranges.begin() && std::prev(next)->second >= begin) --next;
  while (next != ranges.end() && next->first <= end) {
    begin = std::min(begin, next->first);
    end = std::max(end, next->second);
    next = ranges.erase(next);
  }
  ranges.emplace(begin, end);
}

// Returns the entries of the manifest for the files with tensors, by rank.
std::vector<SavedFile> files_of_ranks(const Manifest& manifest,
                                      const std::filesystem::path& folder) {
  std::vector<SavedFile> files;
  for (int rank = 0; rank < manifest.state.mesh.size(); ++rank) {
    const auto found = std::ranges::find(manifest.files, rank_file(rank), &SavedFile::name);
    if (found == manifest.files.end())
      throw DataError((folder / kManifest).string() + " does not name " + rank_file(rank) +
                      "; resume from another checkpoint");
    files.push_back(*found);
  }
  return files;
}

}  // namespace

void describe_slice(std::map<std::string, std::string>& metadata, const std::string& name,
                    const Slice& slice) {
  if (!slice.is_whole()) metadata[kSliceKey + name] = to_json(slice);
}

Slice slice_in(const std::map<std::string, std::string>& metadata, const std::string& name,
               const graph::Dims& dims, const std::string& path) {
  const std::string where = path + ": tensor '" + name + "'";
  const auto text = metadata.find(kSliceKey + name);
  if (text == metadata.end()) return whole_slice(dims);
  Slice slice = parse_slice(text->second, where);
  if (slice.elements() == graph::element_count(dims)) return slice;
  throw DataError(where + " has " + std::to_string(graph::element_count(dims)) +
                  " elements; its slice has " + std::to_string(slice.elements()));
}

Assembly::Assembly(std::vector<WantedSlice> wanted) {
  for (WantedSlice& one : wanted) want(std::move(one));
}

void Assembly::want(WantedSlice wanted) {
  if (!wanted.sent) by_name_.emplace(wanted.name, parts_.size());
  const auto elements = static_cast<uint64_t>(wanted.slice.elements());
  std::vector<std::byte> bytes(elements * graph::dtype_bytes(wanted.dtype));
  parts_.push_back({std::move(wanted), std::move(bytes), {}});
}

void Assembly::add(const data::TensorFile& file, const std::string& path, bool with_statistics) {
  for (const auto& [name, tensor] : file.tensors) {
    const uint64_t element = graph::dtype_bytes(tensor.dtype);
    const std::byte* const from = tensor.bytes.data();
    add({name, tensor.dims, tensor.dtype,
         [=](int64_t first, int64_t count, std::byte* out) {
           std::memcpy(out, from + static_cast<uint64_t>(first) * element,
                       static_cast<uint64_t>(count) * element);
         }},
        file.metadata, path, with_statistics);
  }
}

void Assembly::add(const std::string& path, const data::TensorHeader& header,
                   bool with_statistics) {
  std::optional<data::File> file;  // is opened if something of it is wanted
  const uint64_t tensors = data::kLengthSize + header.text.size();
  for (const data::TensorEntry& entry : header.entries) {
    const uint64_t element = data::dtype_size(entry.dtype);
    const auto read = [&](int64_t first, int64_t count, std::byte* out) {
      if (!file) file.emplace(path);
      const uint64_t at = tensors + entry.begin + static_cast<uint64_t>(first) * element,
                     bytes = static_cast<uint64_t>(count) * element;
      if (const uint64_t got = file->read_at(at, out, bytes); got != bytes)
        throw DataError(path + ": tensor '" + entry.name + "' ends after " +
                        std::to_string(at + got) + " bytes of the file; expected " +
                        std::to_string(at + bytes) +
                        "; it was cut while it was read: resume again, or from another checkpoint");
    };
    add({entry.name, entry.dims, entry.dtype, read}, header.metadata, path, with_statistics);
  }
}

void Assembly::add(const Stored& stored, const std::map<std::string, std::string>& metadata,
                   const std::string& path, bool with_statistics) {
  if (!with_statistics && stored.name.starts_with(kStatisticsGroup)) return;
  const auto [begin, end] = by_name_.equal_range(stored.name);
  if (begin == end) return;
  const Slice slice = slice_in(metadata, stored.name, stored.dims, path);
  for (auto it = begin; it != end; ++it)
    add(parts_[it->second], stored, slice, path + ": tensor '" + stored.name + "'");
}

void Assembly::add(Part& part, const Stored& stored, const Slice& slice, const std::string& where) {
  const WantedSlice& wanted = part.wanted;
  if (slice.dims != wanted.slice.dims) {
    throw DataError(where + " belongs to a tensor of shape " + graph::to_string(slice.dims) +
                    "; this model has " + graph::to_string(wanted.slice.dims) +
                    "; resume with the model of the checkpoint (its config.toml)");
  }
  if (!is_floating(stored.dtype)) throw DataError(where + " has no floating type");
  const uint64_t element = graph::dtype_bytes(wanted.dtype);
  for (const CommonRun& run : common_runs(slice, wanted.slice)) {
    std::byte* const to = part.bytes.data() + static_cast<uint64_t>(run.in_to) * element;
    if (stored.dtype == wanted.dtype) {
      stored.read(run.in_from, run.count, to);
    } else {
      data::HostTensor some{stored.dtype, {run.count}, {}};
      some.bytes.resize(static_cast<uint64_t>(run.count) * graph::dtype_bytes(stored.dtype));
      stored.read(run.in_from, run.count, some.bytes.data());
      std::ranges::copy(converted(some, wanted.dtype), to);
    }
    add_range(part.found, run.in_to, run.in_to + run.count);
  }
}

std::string Assembly::missing() const {
  for (const Part& part : parts_) {
    const int64_t count = part.wanted.slice.elements();
    if (count == 0 || part.wanted.sent || part.found == std::map<int64_t, int64_t>{{0, count}})
      continue;
    return "the checkpoint lacks " + std::string(part.found.empty() ? "" : "a part of ") +
           "tensor '" + part.wanted.name +
           "'; resume with the model and the optimizer of the checkpoint (its "
           "config.toml), or start a new run from its weights (runtime checkpoint export)";
  }
  return "";
}

Assembly assemble(const CheckpointFiles& files, const Manifest& manifest,
                  std::vector<WantedSlice> wanted, int statistics_of) {
  Assembly assembly(std::move(wanted));
  const parallel::Mesh& mesh = manifest.state.mesh;
  const bool whole_files = files.collectives() == nullptr || files.through_rank_0();
  const std::vector<SavedFile> saved = files_of_ranks(manifest, files.path());
  const auto path = [&](int rank) { return (files.path() / rank_file(rank)).string(); };
  const auto with_statistics = [&](int rank) { return mesh.place_of(rank).data == statistics_of; };
  for (int rank = 0; rank < mesh.size() && whole_files; ++rank)
    assembly.add(files.tensors(rank_file(rank)), path(rank), with_statistics(rank));
  std::string fault;
  for (int begin = 0; begin < mesh.size() && !whole_files; begin += kHeadersAtOnce) {
    const int end = std::min(begin + kHeadersAtOnce, mesh.size());
    const auto headers = files.headers({saved.begin() + begin, saved.begin() + end});
    for (int rank = begin; rank < end && fault.empty(); ++rank) {
      try {
        assembly.add(path(rank), headers[static_cast<size_t>(rank - begin)], with_statistics(rank));
      } catch (const DataError& error) {
        fault = error.what();
      }
    }
  }
  if (fault.empty()) fault = assembly.missing();
  files.agree(fault);
  return assembly;
}

data::TensorFile join_checkpoint(const std::filesystem::path& checkpoint,
                                 const Manifest& manifest) {
  Assembly assembly({});
  data::TensorFile joined;
  const parallel::Mesh& mesh = manifest.state.mesh;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const std::string path = (checkpoint / rank_file(rank)).string();
    const data::TensorFile file = data::read_safetensors(path);
    if (rank == 0) joined.metadata = without_slices(file.metadata);
    for (const auto& [name, tensor] : file.tensors) {
      if (!assembly.wants(name))
        assembly.want({name, tensor.dtype,
                       whole_slice(slice_in(file.metadata, name, tensor.dims, path).dims)});
    }
    assembly.add(file, path, mesh.place_of(rank).data == 0);
  }
  if (const std::string missing = assembly.missing(); !missing.empty()) throw DataError(missing);
  for (size_t i = 0; i < assembly.size(); ++i) {
    const WantedSlice& one = assembly.wanted(i);
    joined.tensors[one.name] = {one.dtype, one.slice.dims, assembly.bytes(i)};
  }
  return joined;
}

}  // namespace runtime::train
