// Hashes values when they are written, and compares the hashes later.
#include "tools/verify/corruption_detector.h"

#include <functional>
#include <string_view>

namespace runtime::verify {

namespace {

size_t hash_of(const data::HostTensor& tensor) {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
}

}  // namespace

void CorruptionDetector::wrote(graph::ValueId id, const data::HostTensor& tensor, size_t node) {
  forget_overlapping(id);
  seen_[id] = {hash_of(tensor), node};
}

std::optional<size_t> CorruptionDetector::changed_since(graph::ValueId id,
                                                        const data::HostTensor& tensor,
                                                        size_t node) {
  const size_t hash = hash_of(tensor);
  const auto [at, is_new] = seen_.try_emplace(id, Seen{hash, node});
  if (is_new || at->second.hash == hash) return std::nullopt;
  return at->second.node;
}

// Returns the offset in bytes within the storage of the value.
uint64_t CorruptionDetector::begin_of(graph::ValueId id) const {
  uint64_t offset = 0;
  for (; graph_.value(id).base != graph::kNone; id = graph_.value(id).base)
    offset += graph_.value(id).offset;
  return offset;
}

void CorruptionDetector::forget_overlapping(graph::ValueId id) {
  const graph::ValueId storage = graph_.storage(id);
  const uint64_t begin = begin_of(id), end = begin + graph::canonical_bytes(graph_.value(id));
  std::erase_if(seen_, [&](const auto& item) {
    if (graph_.storage(item.first) != storage) return false;
    const uint64_t other = begin_of(item.first);
    return other < end && begin < other + graph::canonical_bytes(graph_.value(item.first));
  });
}

}  // namespace runtime::verify
