// Where parameters, gradients and optimizer state lie in their flat buffers, and how these are cut
// in buckets.
#ifndef RUNTIME_PARALLEL_FLAT_LAYOUT_H_
#define RUNTIME_PARALLEL_FLAT_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace runtime::parallel {

// A range of bytes of the flat buffers that is reduced together.
struct Bucket {
  uint64_t begin = 0, end = 0;
  // Where its vectors begin, behind everything else; at or behind `end`: none are told apart.
  uint64_t vectors = UINT64_MAX;
  uint64_t bytes() const { return end - begin; }
  // What `rank` owns when it is cut into equal parts.
  Bucket part(int rank, int world_size) const {
    const uint64_t size = bytes() / world_size;
    return {begin + rank * size, begin + (rank + 1) * size, vectors};
  }
};

struct FlatLayout {
  std::vector<uint64_t> offsets;  // of each parameter, in bytes
  std::vector<Bucket> buckets;    // in the order of the buffer; the whole of it
  uint64_t bytes = 0;             // of a buffer, with the padding that collectives need
  uint64_t used_bytes = 0;        // up to the end of the last parameter
  bool has_vectors() const;
};

struct FlatLayoutOptions {
  int world_size = 1;
  uint64_t bucket_bytes = UINT64_MAX;
  // Of the bucket that is ready first: it holds the *last* parameters, since the backward pass goes
  // from the end. Small, so that the network has work early (PyTorch's DDP: 1 MiB).
  uint64_t first_bucket_bytes = UINT64_MAX;
  // About how many buckets at least: smaller ones if the parameters are few, but none below 64 KiB.
  uint64_t buckets = 1;
};

// Parameters (bytes of each, in the order of the layers) begin on cache lines. Each bucket can be
// cut into world_size equal parts of whole cache lines. `vectors` says of each parameter whether it
// goes behind the others of its bucket (because it is updated in another way); empty: none.
FlatLayout lay_out(const std::vector<uint64_t>& parameter_bytes, const FlatLayoutOptions& options,
                   const std::vector<bool>& vectors = {});

// Which bucket has the byte.
size_t bucket_of(const FlatLayout& layout, uint64_t offset);

// Some of what a rank holds when it has its part of each bucket only, one behind the other.
struct Held {
  uint64_t begin = 0, end = 0;  // of the whole buffer
  uint64_t at = 0;              // where that begins in the rank's shard
};

// What `rank` holds of the range, by bucket.
std::vector<Held> held(const FlatLayout& layout, const Bucket& range, int rank, int world_size);

// The whole buffer from the shards of all ranks, one behind the other.
std::vector<std::byte> join_shards(const std::vector<std::byte>& shards, const FlatLayout& layout,
                                   int world_size);

// What `rank` owns when the whole buffer is cut into equal parts, counted from there; without
// offsets.
FlatLayout part_of(const FlatLayout& layout, int rank, int world_size);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_FLAT_LAYOUT_H_
