// Orders parameters by group, gives them offsets, and closes buckets from the end.
#include "runtime/parallel/flat_layout.h"

#include <algorithm>
#include <numeric>

namespace runtime::parallel {

namespace {

constexpr uint64_t kSmallBucket = 64 << 10;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// The bucket of each parameter, counted from the end. A bucket is closed once it has reached its
// size.
std::vector<size_t> buckets_from_the_end(const std::vector<uint64_t>& parameter_bytes,
                                         const FlatLayoutOptions& options) {
  const uint64_t total =
      std::accumulate(parameter_bytes.begin(), parameter_bytes.end(), uint64_t{0});
  const uint64_t most =
      options.buckets == 1 ? UINT64_MAX : std::max(total / options.buckets, kSmallBucket);
  std::vector<size_t> bucket(parameter_bytes.size());
  size_t current = 0;
  uint64_t filled = 0, taken = 0;  // without and with padding
  for (size_t i = parameter_bytes.size(); i-- > 0;) {
    const uint64_t place = round_up(parameter_bytes[i], options.alignment);
    if (filled > 0 && taken + place > options.most_bytes()) {
      ++current;
      filled = taken = 0;
    }
    bucket[i] = current;
    filled += parameter_bytes[i];
    taken += place;
    if (filled >=
        std::min(most, current == 0 ? options.first_bucket_bytes : options.bucket_bytes)) {
      ++current;
      filled = taken = 0;
    }
  }
  return bucket;
}

// As few cuts as possible.
std::vector<uint64_t> cuts_of(const std::vector<Bucket>& buckets, uint64_t most) {
  std::vector<uint64_t> cuts;
  uint64_t begin = 0;
  for (const Bucket& bucket : buckets) {
    if (bucket.end - begin <= most || bucket.begin == begin) continue;
    cuts.push_back(begin = bucket.begin);
  }
  return cuts;
}

}  // namespace

uint64_t FlatLayoutOptions::most_bytes() const {
  if (largest_buffer == UINT64_MAX) return largest_buffer;
  const uint64_t unit = alignment * static_cast<uint64_t>(world_size);
  return (largest_buffer - std::min(largest_buffer, alignment)) / unit * unit;
}

Bucket Bucket::of_group(size_t group) const {
  const auto at = [&](uint64_t place) { return std::clamp(place, begin, end); };
  const uint64_t first = group == 0 ? begin : group <= groups.size() ? at(groups[group - 1]) : end;
  return {first, group < groups.size() ? at(groups[group]) : end};
}

FlatLayout lay_out(const std::vector<uint64_t>& parameter_bytes, const FlatLayoutOptions& options,
                   const std::vector<size_t>& groups, const std::vector<bool>& whole) {
  const std::vector<size_t> bucket = buckets_from_the_end(parameter_bytes, options);
  const uint64_t unit = options.alignment * static_cast<uint64_t>(options.world_size);
  const size_t count = parameter_bytes.size();
  const size_t last_group = groups.empty() ? 0 : *std::max_element(groups.begin(), groups.end());
  FlatLayout layout;
  layout.alignment = options.alignment;
  layout.offsets.resize(count);
  for (size_t first = 0, next = 0; first < count; first = next) {
    while (next < count && bucket[next] == bucket[first]) ++next;
    Bucket b{layout.bytes, layout.bytes};
    const auto place = [&](size_t group, bool of_whole) {
      for (size_t i = first; i < next; ++i) {
        if ((groups.empty() ? 0 : groups[i]) != group) continue;
        if ((!whole.empty() && whole[i]) != of_whole) continue;
        layout.offsets[i] = b.end;
        b.end += round_up(parameter_bytes[i], options.alignment);
      }
    };
    for (size_t group = 0; group <= last_group; ++group) {
      if (group > 0) b.groups.push_back(b.end);
      // In every other group they come first, so that those of two groups lie together.
      place(group, group % 2 == 1);
      place(group, group % 2 == 0);
    }
    layout.used_bytes = b.end;
    b.end = layout.bytes = b.begin + round_up(b.end - b.begin, unit);
    layout.buckets.push_back(b);
  }
  layout.cuts = cuts_of(layout.buckets, options.most_bytes());
  return layout;
}

size_t bucket_of(const FlatLayout& layout, uint64_t offset) {
  const auto behind =
      std::upper_bound(layout.buckets.begin(), layout.buckets.end(), offset,
                       [](uint64_t at, const Bucket& bucket) { return at < bucket.begin; });
  return behind - layout.buckets.begin() - 1;
}

std::vector<Held> held(const FlatLayout& layout, const Bucket& range, int rank, int world_size) {
  std::vector<Held> result;
  for (const Bucket& bucket : layout.buckets) {
    const Bucket own = bucket.partition(rank, world_size);
    const uint64_t begin = std::max(own.begin, range.begin), end = std::min(own.end, range.end);
    if (begin < end) result.push_back({begin, end, bucket.begin / world_size + begin - own.begin});
  }
  return result;
}

std::vector<std::byte> join_shards(const std::vector<std::byte>& shards, const FlatLayout& layout,
                                   int world_size) {
  std::vector<std::byte> whole(layout.bytes);
  for (int r = 0; r < world_size; ++r) {
    for (const Held& h : held(layout, {0, layout.bytes}, r, world_size)) {
      const std::byte* const from = shards.data() + layout.bytes / world_size * r + h.at;
      std::copy(from, from + (h.end - h.begin), whole.data() + h.begin);
    }
  }
  return whole;
}

FlatLayout owned_range(const FlatLayout& layout, int rank, int world_size) {
  const Bucket own = Bucket{0, layout.bytes}.partition(rank, world_size);
  const auto at = [&](uint64_t place) { return std::clamp(place, own.begin, own.end) - own.begin; };
  FlatLayout part;
  part.bytes = part.used_bytes = own.bytes();
  part.alignment = layout.alignment;
  for (const uint64_t cut : layout.cuts) {
    if (at(cut) > 0 && at(cut) < part.bytes) part.cuts.push_back(at(cut));
  }
  for (const Bucket& b : layout.buckets) {
    if (at(b.begin) == at(b.end)) continue;
    part.buckets.push_back({at(b.begin), at(b.end)});
    for (const uint64_t group : b.groups) part.buckets.back().groups.push_back(at(group));
  }
  return part;
}

}  // namespace runtime::parallel
