// Reads added tokens, and finds them in a text.
#include "runtime/tokenizer/added_tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/tokenizer/utf8.h"

namespace runtime::tokenizer {
namespace {

// The characters of words are those of \w in Rust's regex; Other_Alphabetic has few others.
bool is_word_character(char32_t c) {
  constexpr char32_t kNonJoiner = 0x200C, kJoiner = 0x200D;
  return in_category(c, "L") || in_category(c, "M") || in_category(c, "Nd") ||
         in_category(c, "Nl") || in_category(c, "Pc") || c == kNonJoiner || c == kJoiner;
}

bool begins_with_word(std::string_view text) {
  std::size_t at = 0;
  return !text.empty() && is_word_character(next_code_point(text, at));
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && begins_with_word(text.substr(last_character(text)));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer)
    : tokens_(std::move(tokens)) {
  for (AddedToken& token : tokens_) {
    if (token.special) special_.insert(token.content);
    Stretch stretch{token.content};
    if (token.normalized && normalizer) normalizer(stretch);
    token.content = std::move(stretch.text);
  }
  std::vector<Trie::Key> keys[2];
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    by_id_.emplace(token.id, i);
    end_ = std::max<int64_t>(end_, int64_t{token.id} + 1);
    keys[token.normalized ? 1 : 0].emplace_back(token.content, static_cast<int32_t>(i));
  }
  raw_ = Trie(std::move(keys[0]));
  normalized_ = Trie(std::move(keys[1]));
}

void AddedTokens::split(std::string_view text, bool normalized, const Visit& visit) const {
  const Trie& trie = normalized ? normalized_ : raw_;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto found = trie.longest_prefix(text.substr(at));
    if (!found) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(found->value)];
    Range range{at, at + found->length};
    at = range.end;
    if (token.single_word &&
        (ends_with_word(text.substr(0, range.begin)) || begins_with_word(text.substr(range.end))))
      continue;
    if (token.left) range.begin = std::max(spaces_at_end(text.substr(0, range.begin)), done);
    if (token.right) range.end = spaces_from(text, range.end);
    if (done < range.begin) visit({done, range.begin}, nullptr);
    visit(range, &token);
    done = range.end;
  }
  if (done < text.size()) visit({done, text.size()}, nullptr);
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &tokens_[it->second];
}

std::vector<AddedToken> read_added_tokens(const Element& element, const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  if (element.is_null()) return tokens;
  for (const Element& item : element.list()) {
    AddedToken token;
    token.content = item.at("content").text();
    token.id = static_cast<int32_t>(item.at("id").number(0, kMostTokens - 1));
    if (const int32_t id = vocabulary.find(token.content); id != kNoToken) token.id = id;
    token.special = item.flag("special", false);
    token.single_word = item.flag("single_word", false);
    token.left = item.flag("lstrip", false);
    token.right = item.flag("rstrip", false);
    token.normalized = item.flag("normalized", !token.special);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace runtime::tokenizer
