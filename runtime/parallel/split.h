// Which part of a tensor a rank of the tensor axis has.
#ifndef RUNTIME_PARALLEL_SPLIT_H_
#define RUNTIME_PARALLEL_SPLIT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::parallel {

// A tensor cut along one axis of its canonical dims. The axis is `blocks` blocks behind each other
// (q, k and v of attention; the pixels of a flattened image), of `whole` elements each, and of
// every block a rank has `length` from `begin` on. Cuts are at multiples of `unit` (a head, a group
// of a convolution).
struct Split {
  int axis = -1;  // -1: not cut, every rank has the whole
  int64_t blocks = 1, whole = 0, unit = 1;
  int64_t begin = 0, length = 0;

  bool is_whole() const { return axis < 0; }
  int64_t units() const { return whole / unit; }
  Split along(int other_axis) const {
    Split s = *this;
    s.axis = other_axis;
    return s;
  }
  // The same elements of every block, whatever the axis.
  bool is_like(const Split& s) const {
    return blocks == s.blocks && whole == s.whole && unit == s.unit;
  }
};

// The same cut as rank `rank` of `ranks` has it: the units in equal parts, the first ranks one more
// where they do not divide. Every rank has at least one if there are as many units as ranks.
Split part_of(Split split, int rank, int ranks);

// Dims of a rank's part, of the whole.
graph::Dims local_dims(graph::Dims whole, const Split& split);
graph::Dims whole_dims(graph::Dims local, const Split& split);

// The cut of a tensor of dims `from` as a view of it with dims `to` has it; nullopt where the part
// is no part of the view along one axis.
std::optional<Split> through_view(const Split& split, const graph::Dims& from,
                                  const graph::Dims& to);

// A rank's part of a canonical tensor of dims `dims`, as bytes; itself if it is whole.
std::vector<std::byte> cut(const std::vector<std::byte>& tensor, const graph::Dims& dims,
                           const Split& split);
// The inverse: the tensor from the parts of all ranks, in their order. `split` of any rank. Of a
// tensor that is not cut the first part.
std::vector<std::byte> join(const std::vector<std::vector<std::byte>>& parts,
                            const graph::Dims& dims, const Split& split);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_SPLIT_H_
