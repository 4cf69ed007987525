// The tokens of a vocabulary and their ids.
#ifndef RUNTIME_TOKENIZER_VOCABULARY_H_
#define RUNTIME_TOKENIZER_VOCABULARY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/tokenizer/element.h"

namespace runtime::tokenizer {

inline constexpr int64_t kMostTokens = 1 << 24;  // batches hold ids as float32
inline constexpr int32_t kNoToken = -1;

// A hash of strings that also takes a std::string_view without a copy.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
template <class Value>
using ByText = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;  // a copy would point into the original
  Vocabulary& operator=(Vocabulary&&) = default;
  // Adds a token; if it is there already, it gets the new id, and the old id still means it.
  void add(const std::string& token, int32_t id);
  // Returns the id of a token, or kNoToken.
  int32_t find(std::string_view token) const;
  // Appends the ids of the tokens that stand for the bytes of a text, "<0x00>".."<0xFF>"; false:
  // one of them has none, and nothing is appended.
  bool append_bytes(std::string_view text, std::vector<int32_t>& ids) const;
  // Returns the token of an id; nullptr: there is none. It lives as long as the vocabulary.
  const std::string* token(int32_t id) const;
  // Returns the largest id plus one.
  int64_t end() const { return end_; }
  const ByText<int32_t>& ids() const { return ids_; }

 private:
  ByText<int32_t> ids_;
  std::unordered_map<int32_t, const std::string*> tokens_;  // point into ids_
  int64_t end_ = 0;
};

// Reads an object of tokens and their ids.
Vocabulary read_vocabulary(const Element& element);

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_VOCABULARY_H_
