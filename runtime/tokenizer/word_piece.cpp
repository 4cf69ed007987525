// The model WordPiece.
#include <nlohmann/json.hpp>

#include "runtime/error.h"
#include "runtime/tokenizer/model.h"
#include "runtime/tokenizer/trie.h"

namespace runtime::tokenizer {
namespace {

class WordPiece final : public Model {
 public:
  WordPiece(Vocabulary all, const std::string& prefix, const std::string& unknown,
            std::size_t most_characters)
      : Model(std::move(all)),
        most_characters_(most_characters),
        unknown_(vocabulary().find(unknown)) {
    std::vector<Trie::Key> first, later;
    for (const auto& [token, id] : vocabulary().ids()) {
      first.emplace_back(token, id);
      if (token.starts_with(prefix))
        later.emplace_back(std::string_view(token).substr(prefix.size()), id);
    }
    first_ = Trie(std::move(first));
    later_ = Trie(std::move(later));
  }

  void tokenize(std::string_view piece, std::vector<int32_t>& ids) const override {
    const std::size_t before = ids.size();
    const auto is_first_byte = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
    const auto characters = std::count_if(piece.begin(), piece.end(), is_first_byte);
    bool known = static_cast<std::size_t>(characters) <= most_characters_;
    for (std::size_t at = 0; known && at < piece.size();) {
      const auto found = (at == 0 ? first_ : later_).longest_prefix(piece.substr(at));
      known = found.has_value();
      if (!known) break;
      ids.push_back(found->value);
      at += found->length;
    }
    if (known) return;
    ids.resize(before);
    if (unknown_ == kNoToken) {
      throw DataError("the word \"" + std::string(piece.substr(0, 80)) +
                      "\" has no tokens, and the unk_token is none of the vocabulary; expected it "
                      "there");
    }
    ids.push_back(unknown_);
  }

 private:
  std::size_t most_characters_;  // a longer word is unknown as a whole
  int32_t unknown_;
  Trie first_, later_;  // what a word begins with, and what goes on within it
};

}  // namespace

ModelPointer read_word_piece(const Element& element) {
  constexpr int64_t kMost = 1 << 20;
  const int64_t most = element.has("max_input_chars_per_word")
                           ? element.at("max_input_chars_per_word").number(0, kMost)
                           : 100;
  return std::make_unique<WordPiece>(
      read_vocabulary(element.at("vocab")), element.text("continuing_subword_prefix", "##"),
      element.text("unk_token", "[UNK]"), static_cast<std::size_t>(most));
}

}  // namespace runtime::tokenizer
