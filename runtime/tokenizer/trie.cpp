// Builds a prefix tree of sorted keys, level by level.
#include "runtime/tokenizer/trie.h"

namespace runtime::tokenizer {
namespace {

// The keys begin..end-1 have the bytes of a node and of those above it in common.
struct Level {
  std::size_t begin, end;
};

}  // namespace

Trie::Trie(std::vector<Key> keys) {
  std::erase_if(keys, [](const Key& key) { return key.first.empty(); });
  std::stable_sort(keys.begin(), keys.end(),
                   [](const Key& a, const Key& b) { return a.first < b.first; });
  nodes_.emplace_back();
  std::vector<Level> level = {{0, keys.size()}}, next;
  std::size_t node = 0;  // of the first range in `level`
  for (std::size_t depth = 0; !level.empty(); ++depth, level.swap(next)) {
    next.clear();
    for (auto [begin, end] : level) {
      // Keys that end here stand before those that go on.
      if (depth > 0 && keys[begin].first.size() == depth) nodes_[node].value = keys[begin].second;
      while (begin < end && keys[begin].first.size() == depth) ++begin;
      nodes_[node].first_child = static_cast<int32_t>(nodes_.size());
      for (std::size_t from = begin; from < end;) {
        const char byte = keys[from].first[depth];
        std::size_t to = from;
        while (to < end && keys[to].first[depth] == byte) ++to;
        nodes_.push_back({.byte = static_cast<uint8_t>(byte)});
        ++nodes_[node].children;
        next.push_back({from, to});
        from = to;
      }
      ++node;
    }
  }
  for (int byte = 0; byte < 256; ++byte)
    first_[static_cast<std::size_t>(byte)] = child(0, static_cast<char>(byte));
}

std::optional<Trie::Found> Trie::longest_prefix(std::string_view text) const {
  std::optional<Found> found;
  each_prefix(text, [&](std::size_t length, int32_t value) { found = {length, value}; });
  return found;
}

}  // namespace runtime::tokenizer
