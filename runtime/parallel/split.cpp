// Computes the runs of memory that a slice has, and cuts and joins tensors by them.
#include "runtime/parallel/split.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace runtime::parallel {

using graph::Dims;

namespace {

int64_t product(Dims::const_iterator begin, Dims::const_iterator end) {
  return std::accumulate(begin, end, int64_t{1}, std::multiplies<>());
}

// Calls f(offset in the tensor, offset in the slice, bytes) for each contiguous run of the slice,
// which may have none.
template <typename F>
void for_each_run(uint64_t bytes, const Dims& dims, const Split& s, F&& f) {
  const auto axis = dims.begin() + s.axis;
  const int64_t element = static_cast<int64_t>(bytes) / product(dims.begin(), dims.end());
  const int64_t inner = product(axis + 1, dims.end()) * element;
  const int64_t blocks = s.length == 0 ? 0 : product(dims.begin(), axis) * s.blocks;
  for (int64_t b = 0; b < blocks; ++b)
    f((b * s.whole + s.begin) * inner, b * s.length * inner, s.length * inner);
}

// The slice counted in elements of an axis behind which `behind` numbers lie, where `inner` lie
// behind its own; nullopt if it begins or ends inside such an element.
std::optional<Split> in_units_of(Split s, int64_t inner, int64_t behind) {
  if (behind == inner) return s;
  if (behind == 0 || inner == 0) return std::nullopt;
  if (behind % inner == 0) {
    const int64_t merged = behind / inner;
    if (s.unit % merged != 0 || s.whole % merged != 0) return std::nullopt;
    for (int64_t* size : {&s.whole, &s.unit, &s.begin, &s.length}) *size /= merged;
    return s;
  }
  if (inner % behind != 0) return std::nullopt;
  for (int64_t* size : {&s.whole, &s.unit, &s.begin, &s.length}) *size *= inner / behind;
  return s;
}

}  // namespace

Split slice_of(Split split, int rank, int ranks) {
  const int64_t each = split.units() / ranks, more = split.units() % ranks;
  const auto before = [&](int64_t r) { return (r * each + std::min(r, more)) * split.unit; };
  split.begin = before(rank);
  split.length = before(rank + 1) - split.begin;
  return split;
}

Dims local_dims(Dims whole, const Split& split) {
  if (!split.is_whole()) whole[split.axis] = split.blocks * split.length;
  return whole;
}

Dims whole_dims(Dims local, const Split& split) {
  if (!split.is_whole()) local[split.axis] = split.blocks * split.whole;
  return local;
}

std::optional<Split> through_view(const Split& split, const Dims& from, const Dims& to) {
  const int64_t inner = product(from.begin() + split.axis + 1, from.end());
  std::optional<Split> found;
  for (size_t axis = to.size(); axis-- > 0;) {
    const int64_t behind = product(to.begin() + static_cast<std::ptrdiff_t>(axis) + 1, to.end());
    const std::optional<Split> s = in_units_of(split, inner, behind);
    if (!s || to[axis] % s->whole != 0) continue;
    // The axis itself goes before one that it is divided or merged into.
    if (found && behind != inner) continue;
    found = s->along(static_cast<int>(axis));
    found->blocks = to[axis] / s->whole;
  }
  return found;
}

std::vector<std::byte> cut(const std::vector<std::byte>& tensor, const Dims& dims,
                           const Split& split) {
  if (split.is_whole() || tensor.empty()) return tensor;
  std::vector<std::byte> part(tensor.size() / split.whole * split.length);
  for_each_run(tensor.size(), dims, split, [&](int64_t whole, int64_t own, int64_t bytes) {
    std::memcpy(&part[own], &tensor[whole], bytes);
  });
  return part;
}

std::vector<std::byte> join(const std::vector<std::vector<std::byte>>& parts, const Dims& dims,
                            const Split& split) {
  if (split.is_whole()) return parts.at(0);
  uint64_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  std::vector<std::byte> tensor(bytes);
  const int ranks = static_cast<int>(parts.size());
  for (int r = 0; r < ranks; ++r) {
    for_each_run(bytes, dims, slice_of(split, r, ranks),
                 [&](int64_t whole, int64_t own, int64_t run) {
                   std::memcpy(&tensor[whole], &parts[r][own], run);
                 });
  }
  return tensor;
}

}  // namespace runtime::parallel
