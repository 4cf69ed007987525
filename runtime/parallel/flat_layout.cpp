#include "runtime/parallel/flat_layout.h"

#include <algorithm>

namespace runtime::parallel {

namespace {

constexpr uint64_t kCacheLine = 64;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// The bucket of each parameter, counted from the end; one is closed when it has reached its size.
std::vector<size_t> buckets_from_the_end(const std::vector<uint64_t>& parameter_bytes,
                                         const FlatLayoutOptions& options) {
  std::vector<size_t> bucket(parameter_bytes.size());
  size_t current = 0;
  uint64_t filled = 0;
  for (size_t i = parameter_bytes.size(); i-- > 0;) {
    bucket[i] = current;
    filled += parameter_bytes[i];
    if (filled >= (current == 0 ? options.first_bucket_bytes : options.bucket_bytes)) {
      ++current;
      filled = 0;
    }
  }
  return bucket;
}

}  // namespace

FlatLayout lay_out(const std::vector<uint64_t>& parameter_bytes, const FlatLayoutOptions& options) {
  const std::vector<size_t> bucket = buckets_from_the_end(parameter_bytes, options);
  const uint64_t unit = kCacheLine * static_cast<uint64_t>(options.world_size);
  FlatLayout layout;
  uint64_t at = 0, begin = 0;
  for (size_t i = 0; i < parameter_bytes.size(); ++i) {
    if (i > 0 && bucket[i] != bucket[i - 1]) {
      at = begin + round_up(at - begin, unit);
      layout.buckets.push_back({begin, at});
      begin = at;
    }
    layout.offsets.push_back(at);
    at += round_up(parameter_bytes[i], kCacheLine);
  }
  layout.used_bytes = at;
  layout.bytes = begin + round_up(at - begin, unit);
  if (layout.bytes > 0) layout.buckets.push_back({begin, layout.bytes});
  return layout;
}

}  // namespace runtime::parallel
