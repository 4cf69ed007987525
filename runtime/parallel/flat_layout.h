// Where parameters, gradients and optimizer state lie in their flat buffers, and how these buffers
// are cut into buckets.
#ifndef RUNTIME_PARALLEL_FLAT_LAYOUT_H_
#define RUNTIME_PARALLEL_FLAT_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace runtime::parallel {

// A byte range of the flat buffers that one collective reduces. Equivalent to: a bucket of
// PyTorch's DistributedDataParallel.
struct Bucket {
  uint64_t begin = 0, end = 0;
  // Where parameter groups 1, 2 and so on begin. Group 0 begins with the bucket, and each ends
  // where the next one begins. They may lie outside of the bucket if it is a part of another one.
  std::vector<uint64_t> groups = {};
  uint64_t bytes() const { return end - begin; }
  // The ZeRO partition of `rank`: the bucket cut into world_size equal ranges. bytes() must be a
  // multiple of world_size.
  Bucket partition(int rank, int world_size) const {
    const uint64_t size = bytes() / world_size;
    return {begin + rank * size, begin + (rank + 1) * size, groups};
  }
  // The bytes of a parameter group in the bucket, of its padding too if the group is the last one;
  // none if the group has no parameter here.
  Bucket of_group(size_t group) const;
};

// The layout of the flat buffers of one rank; what lay_out() returns.
struct FlatLayout {
  std::vector<uint64_t> offsets;  // of each parameter, in bytes
  std::vector<Bucket> buckets;    // ascending; together they cover the whole buffer
  uint64_t bytes = 0;             // of one flat buffer, with the padding that collectives need
  uint64_t used_bytes = 0;        // up to the end of the last parameter
  uint64_t alignment = 64;        // of parameters, buckets and ZeRO partitions, in bytes
  // The first byte of each bucket that begins a buffer of its own, ascending; empty: one buffer
  // holds all.
  std::vector<uint64_t> cuts = {};
};

// How lay_out() cuts a flat buffer.
struct FlatLayoutOptions {
  int world_size = 1;
  uint64_t bucket_bytes = UINT64_MAX;
  // The size of the bucket that is ready first. It holds the *last* parameters, because the
  // backward pass goes from the end. A small size gives the network work early (PyTorch's DDP: 1
  // MiB).
  uint64_t first_bucket_bytes = UINT64_MAX;
  // About how many buckets there should be at least. If the parameters are few, buckets get smaller
  // for it, but not below 64 KiB.
  uint64_t buckets = 1;
  // Bytes; a power of two. Kernels read parameters in place, so that it must be a multiple of the
  // device's rt_device_properties.alignment; and the same on all ranks.
  uint64_t alignment = 64;
  // Bytes that a buffer of any rank can have. A flat buffer that is larger is cut between buckets,
  // and no bucket is larger unless one parameter is.
  uint64_t largest_buffer = UINT64_MAX;

  // The bytes of a flat buffer that one buffer can hold, with room for one more element.
  uint64_t most_bytes() const;
};

// Lays out parameters (bytes of each, in the order of the layers), each at a multiple of
// options.alignment. Each bucket can be cut into world_size equal ranges that are so aligned, too.
// `groups` says for each parameter to which group it belongs: the groups lie one behind the other
// in each bucket, because the update treats them differently; empty: all belong to group 0. Those
// for which `whole` says that all ranks of the tensor axis have them lie together in each group, so
// that the sum over their gradients, which counts them once, takes few launches; empty: none.
FlatLayout lay_out(const std::vector<uint64_t>& parameter_bytes, const FlatLayoutOptions& options,
                   const std::vector<size_t>& groups = {}, const std::vector<bool>& whole = {});

// The index of the bucket that contains byte `offset`.
size_t bucket_of(const FlatLayout& layout, uint64_t offset);

// A byte range of the whole buffer that lies in a rank's ZeRO partition. A rank keeps its
// partitions of all buckets one behind the other.
struct Held {
  uint64_t begin = 0, end = 0;  // in the whole buffer
  uint64_t at = 0;              // where the range begins among the rank's partitions
};

// The bytes of `range` that lie in the ZeRO partition of `rank`, one entry for each bucket.
std::vector<Held> held(const FlatLayout& layout, const Bucket& range, int rank, int world_size);

// The whole buffer from the ZeRO partitions of all ranks, which `shards` has one behind the other
// in the order of ranks.
std::vector<std::byte> join_shards(const std::vector<std::byte>& shards, const FlatLayout& layout,
                                   int world_size);

// The range that `rank` owns when the whole buffer (not each bucket) is cut into equal ranges:
// buckets, cuts and offsets count from its beginning; `offsets` stays empty.
FlatLayout owned_range(const FlatLayout& layout, int rank, int world_size);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_FLAT_LAYOUT_H_
