// A prefix tree of byte strings.
#ifndef RUNTIME_TOKENIZER_TRIE_H_
#define RUNTIME_TOKENIZER_TRIE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace runtime::tokenizer {

// An immutable set of keys, each with a value that is not negative. It holds copies of the keys.
class Trie {
 public:
  using Key = std::pair<std::string_view, int32_t>;
  // The constructor leaves out empty keys, and equal keys after the first in the order given.
  explicit Trie(std::vector<Key> keys = {});

  // Calls visit(length, value) for each key with which `text` begins, the shortest first.
  template <class Visit>
  void each_prefix(std::string_view text, Visit visit) const {
    int32_t node = 0;
    for (std::size_t length = 0; length < text.size(); ++length) {
      node = length == 0 ? first_[static_cast<uint8_t>(text[0])] : child(node, text[length]);
      if (node < 0) return;
      if (nodes_[static_cast<std::size_t>(node)].value >= 0)
        visit(length + 1, nodes_[static_cast<std::size_t>(node)].value);
    }
  }

  struct Found {
    std::size_t length;
    int32_t value;
  };
  // Returns the longest key with which `text` begins.
  std::optional<Found> longest_prefix(std::string_view text) const;

 private:
  // The children of a node lie one behind the other, in the order of their bytes.
  struct Node {
    int32_t value = -1;  // -1: no key ends here
    int32_t first_child = 0;
    int16_t children = 0;
    uint8_t byte = 0;
  };

  int32_t child(int32_t node, char byte) const {
    const Node& parent = nodes_[static_cast<std::size_t>(node)];
    const auto begin = nodes_.begin() + parent.first_child, end = begin + parent.children;
    const auto wanted = static_cast<uint8_t>(byte);
    const auto it =
        std::lower_bound(begin, end, wanted, [](const Node& a, uint8_t b) { return a.byte < b; });
    return it == end || it->byte != wanted ? -1 : static_cast<int32_t>(it - nodes_.begin());
  }

  std::vector<Node> nodes_;              // the root is the first
  std::array<int32_t, 256> first_ = {};  // the children of the root, by byte; -1: none
};

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_TRIE_H_
