// The part of a tensor that a rank has or that a file of a checkpoint holds.
#ifndef RUNTIME_TRAIN_CHECKPOINT_SLICE_H_
#define RUNTIME_TRAIN_CHECKPOINT_SLICE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/parallel/split.h"

namespace runtime::train {

// A tensor-parallel slice of a tensor, or a range of that slice (a ZeRO partition). Equivalent to:
// a shard with its offsets in the metadata of torch.distributed.checkpoint.
struct Slice {
  graph::Dims dims;        // of the whole tensor, in canonical layout
  parallel::Split split;   // is_whole(): every element belongs to the slice
  int64_t begin = 0, end;  // range of the slice's elements, in row-major order

  int64_t elements() const { return end - begin; }
  // Whether it is the whole tensor.
  bool is_whole() const;
};

// The whole tensor as a slice.
Slice whole_slice(graph::Dims dims);

// Consecutive elements that a slice and its tensor have in common.
struct ElementRun {
  int64_t in_tensor = 0, in_slice = 0, count = 0;  // in_slice counts from Slice::begin
};
// The slice as runs, in ascending order. Neighbouring runs are joined.
std::vector<ElementRun> runs_of(const Slice& slice);

// Consecutive elements that two slices of a tensor have in common; both count from Slice::begin.
struct CommonRun {
  int64_t in_from = 0, in_to = 0, count = 0;
};
// All elements that lie in both slices, in ascending order. Neighbouring runs are joined: of equal
// slices there is one.
std::vector<CommonRun> common_runs(const Slice& from, const Slice& to);

// The slice as JSON for the metadata of a file, and back. parse_slice() throws DataError, which
// begins with `where`, if the text is not that of a slice, or if its numbers do not fit together.
std::string to_json(const Slice& slice);
Slice parse_slice(const std::string& json, const std::string& where);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_CHECKPOINT_SLICE_H_
