// Which slice of a tensor a rank of the tensor axis has.
#ifndef RUNTIME_PARALLEL_SPLIT_H_
#define RUNTIME_PARALLEL_SPLIT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::parallel {

// A tensor-parallel slice: a tensor cut along one axis of its canonical dims. The axis consists of
// `blocks` blocks one behind the other (q, k and v of attention; the pixels of a flattened image)
// of `whole` elements each, and the rank has the `length` elements from `begin` on of every block.
// Cuts are at multiples of `unit` elements (a head, a group of a convolution).
struct Split {
  int axis = -1;  // -1: not cut, every rank has the whole tensor
  int64_t blocks = 1, whole = 0, unit = 1;
  int64_t begin = 0, length = 0;

  bool is_whole() const { return axis < 0; }
  int64_t units() const { return whole / unit; }
  Split along(int other_axis) const {
    Split s = *this;
    s.axis = other_axis;
    return s;
  }
  // Whether both slices have the same elements of every block, whatever the axis.
  bool is_like(const Split& s) const {
    return blocks == s.blocks && whole == s.whole && unit == s.unit;
  }
};

// The slice of rank `rank` of `ranks` for the same cut: equal numbers of units, where the first
// ranks have one more if the division leaves a remainder. Every rank has a unit if there are at
// least as many units as ranks.
Split slice_of(Split split, int rank, int ranks);

// The dims of a rank's slice from those of the whole tensor, and the reverse.
graph::Dims local_dims(graph::Dims whole, const Split& split);
graph::Dims whole_dims(graph::Dims local, const Split& split);

// The slice of a view with dims `to` that matches slice `split` of its base with dims `from`;
// nullopt if the slice of the view is not along one axis.
std::optional<Split> through_view(const Split& split, const graph::Dims& from,
                                  const graph::Dims& to);

// Copies a rank's slice out of the bytes of a canonical tensor of dims `dims`; the tensor itself if
// it is not cut.
std::vector<std::byte> cut(const std::vector<std::byte>& tensor, const graph::Dims& dims,
                           const Split& split);
// The inverse of cut(): the tensor from the slices of all ranks, in the order of ranks. `split` may
// be that of any rank. For a tensor that is not cut, the first entry of `parts`.
std::vector<std::byte> join(const std::vector<std::vector<std::byte>>& parts,
                            const graph::Dims& dims, const Split& split);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_SPLIT_H_
