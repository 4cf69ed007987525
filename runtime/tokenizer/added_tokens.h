// Added tokens: texts that are found before a model sees what lies between them.
#ifndef RUNTIME_TOKENIZER_ADDED_TOKENS_H_
#define RUNTIME_TOKENIZER_ADDED_TOKENS_H_

#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/tokenizer/element.h"
#include "runtime/tokenizer/normalizer.h"
#include "runtime/tokenizer/regex.h"
#include "runtime/tokenizer/trie.h"
#include "runtime/tokenizer/vocabulary.h"

namespace runtime::tokenizer {

struct AddedToken {
  std::string content;  // in AddedTokens normalized, if it is looked for in normalized text
  int32_t id = 0;
  bool single_word = false;          // only where no word character stands beside it
  bool left = false, right = false;  // takes the spaces on that side
  bool normalized = false;           // is looked for in normalized text, else before that
  bool special = false;              // see Tokenizer::is_special()
};

// The added tokens of a tokenizer, which are immutable; any thread may use them.
class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  // Calls visit(range, token) for each token that is found in a text, and visit(range, nullptr) for
  // each stretch between two. Of tokens that begin at the same character the longest is taken.
  using Visit = std::function<void(Range range, const AddedToken* token)>;
  void split(std::string_view text, bool normalized, const Visit& visit) const;
  // Returns the token of an id; nullptr: there is none. It lives as long as this object.
  const AddedToken* find(int32_t id) const;
  // Whether a token of this text is special, whatever its id is.
  bool is_special(const std::string& content) const { return special_.contains(content); }
  // Returns the largest id plus one.
  int64_t end() const { return end_; }

 private:
  std::vector<AddedToken> tokens_;
  std::set<std::string> special_;
  std::unordered_map<int32_t, std::size_t> by_id_;  // indices of tokens_
  Trie raw_, normalized_;                           // to indices of tokens_
  int64_t end_ = 0;
};

// Reads the element `added_tokens` of a tokenizer.json. A token of the model keeps its id.
std::vector<AddedToken> read_added_tokens(const Element& element, const Vocabulary& vocabulary);

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_ADDED_TOKENS_H_
