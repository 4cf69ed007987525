// Copies overlapping slices into tensors, and checks that nothing is missing.
#include "runtime/train/checkpoint/assembly.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/train/weights.h"

namespace runtime::train {

namespace {

// In the metadata of a file, before the name of a tensor that is only a slice.
constexpr char kSliceKey[] = "slice:";

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

}  // namespace

void describe_slice(std::map<std::string, std::string>& metadata, const std::string& name,
                    const Slice& slice) {
  if (!slice.is_whole()) metadata[kSliceKey + name] = to_json(slice);
}

Slice slice_in(const data::TensorFile& file, const std::string& name, const std::string& path) {
  const graph::Dims& dims = file.tensors.at(name).dims;
  const std::string where = path + ": tensor '" + name + "'";
  const auto text = file.metadata.find(kSliceKey + name);
  if (text == file.metadata.end()) return whole_slice(dims);
  Slice slice = parse_slice(text->second, where);
  if (slice.elements() == graph::element_count(dims)) return slice;
  throw DataError(where + " has " + std::to_string(graph::element_count(dims)) +
                  " elements; its slice has " + std::to_string(slice.elements()));
}

Assembly::Assembly(std::vector<WantedSlice> wanted) {
  for (WantedSlice& one : wanted) want(std::move(one));
}

void Assembly::want(WantedSlice wanted) {
  by_name_.emplace(wanted.name, parts_.size());
  const auto elements = static_cast<uint64_t>(wanted.slice.elements());
  std::vector<std::byte> bytes(elements * graph::dtype_bytes(wanted.dtype));
  parts_.push_back({std::move(wanted), std::move(bytes), {}});
}

void Assembly::add(const data::TensorFile& file, const std::string& path, bool with_statistics) {
  for (const auto& [name, tensor] : file.tensors) {
    if (!with_statistics && name.starts_with(kStatisticsGroup)) continue;
    const auto [begin, end] = by_name_.equal_range(name);
    if (begin == end) continue;
    const Slice slice = slice_in(file, name, path);
    for (auto it = begin; it != end; ++it)
      add(parts_[it->second], tensor, slice, path + ": tensor '" + name + "'");
  }
}

void Assembly::add(Part& part, const data::HostTensor& tensor, const Slice& slice,
                   const std::string& where) {
  const WantedSlice& wanted = part.wanted;
  if (slice.dims != wanted.slice.dims) {
    throw DataError(where + " belongs to a tensor of shape " + graph::to_string(slice.dims) +
                    "; this model has " + graph::to_string(wanted.slice.dims) +
                    "; resume with the model of the checkpoint (its config.toml)");
  }
  if (!is_floating(tensor.dtype)) throw DataError(where + " has no floating type");
  const bool same = tensor.dtype == wanted.dtype;
  const std::vector<std::byte> other =
      same ? std::vector<std::byte>{} : converted(tensor, wanted.dtype);
  for (const ElementRun& run :
       copy_common(slice, same ? tensor.bytes.data() : other.data(), wanted.slice,
                   part.bytes.data(), graph::dtype_bytes(wanted.dtype)))
    add_range(part.found, run.in_slice, run.in_slice + run.count);
}

void Assembly::check_complete() const {
  for (const Part& part : parts_) {
    const int64_t count = part.wanted.slice.elements();
    if (count == 0 || part.found == std::map<int64_t, int64_t>{{0, count}}) continue;
    throw DataError(
        "the checkpoint lacks " + std::string(part.found.empty() ? "" : "a part of ") + "tensor '" +
        part.wanted.name +
        "'; resume with the model and the optimizer of the checkpoint (its "
        "config.toml), or start a new run from its weights (runtime checkpoint export)");
  }
}

Assembly assemble(const CheckpointFiles& files, const Manifest& manifest,
                  std::vector<WantedSlice> wanted, int statistics_of) {
  Assembly assembly(std::move(wanted));
  const parallel::Mesh& mesh = manifest.state.mesh;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const std::string path = (files.path() / rank_file(rank)).string();
    assembly.add(files.tensors(rank_file(rank)), path, mesh.place_of(rank).data == statistics_of);
  }
  assembly.check_complete();
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
        assembly.want({name, tensor.dtype, whole_slice(slice_in(file, name, path).dims)});
    }
    assembly.add(file, path, mesh.place_of(rank).data == 0);
  }
  assembly.check_complete();
  for (size_t i = 0; i < assembly.size(); ++i) {
    const WantedSlice& one = assembly.wanted(i);
    joined.tensors[one.name] = {one.dtype, one.slice.dims, assembly.bytes(i)};
  }
  return joined;
}

}  // namespace runtime::train
