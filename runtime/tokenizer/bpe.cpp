// The model BPE.
#include <nlohmann/json.hpp>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "runtime/error.h"
#include "runtime/tokenizer/model.h"
#include "runtime/tokenizer/utf8.h"

namespace runtime::tokenizer {
namespace {

struct Merge {
  int32_t rank, id;
};

// A node of a linked list in an array. A symbol that was merged into the one before it has the id
// kNoToken.
struct Symbol {
  int32_t id;
  int64_t before, after;  // indices; -1: none
};

struct Candidate {
  int32_t rank, id;
  int64_t left;
  bool operator<(const Candidate& other) const {  // top: the earliest merge, then the leftmost
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

// The options of a BPE model in tokenizer.json; vocabulary and merges stand apart.
struct BpeOptions {
  std::string unknown = {};   // the token for characters that have none; "": they are left out
  std::string prefix = {};    // before each character of a word but the first
  std::string suffix = {};    // behind the last character of a word
  bool fuse_unknown = false;  // one unknown token for several characters in a row
  bool bytes = false;         // characters without a token become tokens of their bytes
  bool whole_words = false;   // a piece that is a token stays whole, whatever the merges say
};

class Bpe final : public Model {
 public:
  Bpe(Vocabulary all, BpeOptions options, std::string where)
      : Model(std::move(all)), options_(std::move(options)), where_(std::move(where)) {}

  // Adds the next merge of the list. Returns false if one of its three tokens does not exist.
  bool add_merge(const std::string& left, const std::string& right) {
    const std::size_t cut = right.starts_with(options_.prefix) ? options_.prefix.size() : 0;
    const int32_t l = vocabulary().find(left), r = vocabulary().find(right);
    const int32_t both = vocabulary().find(left + right.substr(cut));
    if (l == kNoToken || r == kNoToken || both == kNoToken) return false;
    if (left.empty() || right.size() == cut) return false;
    merges_[key(l, r)] = {rank_++, both};
    std::size_t begin = last_character(left), end = cut;
    const char32_t before = next_code_point(left, begin);
    joined_.insert(key(before, next_code_point(right, end)));
    return true;
  }

  // A piece can be cut between two characters that no merge joins, if both are symbols.
  std::size_t part_end(std::string_view piece) const override {
    if (options_.whole_words || !options_.prefix.empty() || !options_.suffix.empty())
      return piece.size();
    std::size_t at = 0;
    char32_t before = next_code_point(piece, at);
    for (std::size_t begin = 0, end = at; end < piece.size(); begin = end, end = at) {
      const char32_t after = next_code_point(piece, at);
      if (!joined_.contains(key(before, after)) && is_symbol(piece.substr(begin, end - begin)) &&
          is_symbol(piece.substr(end, at - end)))
        return end;
      before = after;
    }
    return piece.size();
  }

  void tokenize(std::string_view piece, std::vector<int32_t>& ids) const override {
    if (options_.whole_words) {
      if (const int32_t id = vocabulary().find(piece); id != kNoToken) return ids.push_back(id);
    }
    std::vector<Symbol> symbols = symbols_of(piece);
    merge(symbols);
    for (const Symbol& symbol : symbols) {
      if (symbol.id != kNoToken) ids.push_back(symbol.id);
    }
  }

 private:
  static uint64_t key(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

  bool is_symbol(std::string_view character) const {
    return vocabulary().find(character) != kNoToken;
  }

  int32_t unknown_id() const {
    const int32_t id = vocabulary().find(options_.unknown);
    if (id != kNoToken) return id;
    throw DataError(where_ + ": the text has a character without a token, and the unk_token \"" +
                    options_.unknown + "\" is none; expected it in the vocabulary");
  }

  // Appends the symbols of the bytes of a character; false: one of them has none.
  bool add_bytes(std::string_view character, std::vector<Symbol>& symbols) const {
    std::vector<int32_t> ids;
    if (!vocabulary().append_bytes(character, ids)) return false;
    for (const int32_t id : ids) symbols.push_back({id, -1, -1});
    return true;
  }

  std::vector<Symbol> symbols_of(std::string_view piece) const {
    std::vector<Symbol> symbols;
    symbols.reserve(piece.size());
    bool unknown = false;  // whether an unknown token is to come before the next one
    const auto add_unknown = [&] {
      if (unknown) symbols.push_back({unknown_id(), -1, -1});
      unknown = false;
    };
    std::string decorated;
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      next_code_point(piece, at);
      std::string_view character = piece.substr(begin, at - begin);
      const bool suffix = at == piece.size() && !options_.suffix.empty();
      if (suffix || (begin > 0 && !options_.prefix.empty())) {
        decorated = begin > 0 ? options_.prefix : "";
        decorated += character;
        if (suffix) decorated += options_.suffix;
        character = decorated;
      }
      if (const int32_t id = vocabulary().find(character); id != kNoToken) {
        add_unknown();
        symbols.push_back({id, -1, -1});
      } else if (!(options_.bytes && add_bytes(character, symbols)) && !options_.unknown.empty()) {
        if (!options_.fuse_unknown) add_unknown();
        unknown = true;
      }
    }
    add_unknown();
    const auto size = static_cast<int64_t>(symbols.size());
    for (int64_t i = 0; i < size; ++i) {
      symbols[static_cast<std::size_t>(i)].before = i - 1;
      symbols[static_cast<std::size_t>(i)].after = i + 1 < size ? i + 1 : -1;
    }
    return symbols;
  }

  const Merge* merge_at(const std::vector<Symbol>& symbols, int64_t left) const {
    if (left < 0 || symbols[left].id == kNoToken || symbols[left].after < 0) return nullptr;
    const auto it = merges_.find(key(symbols[left].id, symbols[symbols[left].after].id));
    return it == merges_.end() ? nullptr : &it->second;
  }

  // The queue merges n symbols in time n log n, whatever they are.
  void merge(std::vector<Symbol>& symbols) const {
    std::vector<Candidate> candidates;
    candidates.reserve(symbols.size());
    std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(candidates));
    const auto consider = [&](int64_t left) {
      if (const Merge* merge = merge_at(symbols, left)) queue.push({merge->rank, merge->id, left});
    };
    for (std::size_t i = 0; i < symbols.size(); ++i) consider(static_cast<int64_t>(i));
    while (!queue.empty()) {
      const Candidate c = queue.top();
      queue.pop();
      // The symbols may have become others since the candidate was queued.
      const Merge* merge = merge_at(symbols, c.left);
      if (merge == nullptr || merge->id != c.id) continue;
      Symbol& left = symbols[c.left];
      Symbol& right = symbols[left.after];
      left.id = c.id;
      right.id = kNoToken;
      left.after = right.after;
      if (left.after >= 0) symbols[left.after].before = c.left;
      consider(left.before);
      consider(c.left);
    }
  }

  BpeOptions options_;
  std::string where_;
  int32_t rank_ = 0;
  std::unordered_map<uint64_t, Merge> merges_;
  // The characters before and behind the place where a merge joins two tokens.
  std::unordered_set<uint64_t> joined_;
};

// A merge is written as "left right" or as [left, right].
std::pair<std::string, std::string> read_merge(const nlohmann::json& merge, const Element& merges,
                                               std::size_t index) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  const std::string text = merge.is_string() ? merge.get<std::string>() : "";
  const std::size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
    merges.at(index).refuse("two tokens: \"left right\" or [\"left\", \"right\"]");
  return {text.substr(0, space), text.substr(space + 1)};
}

}  // namespace

ModelPointer read_bpe(const Element& element) {
  if (element.has("dropout") && element.at("dropout").json() != 0)
    element.at("dropout").refuse("null: the same text always has the same tokens here");
  auto model =
      std::make_unique<Bpe>(read_vocabulary(element.at("vocab")),
                            BpeOptions{.unknown = element.text("unk_token", ""),
                                       .prefix = element.text("continuing_subword_prefix", ""),
                                       .suffix = element.text("end_of_word_suffix", ""),
                                       .fuse_unknown = element.flag("fuse_unk", false),
                                       .bytes = element.flag("byte_fallback", false),
                                       .whole_words = element.flag("ignore_merges", false)},
                            element.where());
  const Element merges = element.at("merges");
  if (!merges.json().is_array()) merges.refuse("an array");
  for (std::size_t i = 0; i < merges.json().size(); ++i) {
    const auto [left, right] = read_merge(merges.json()[i], merges, i);
    if (!model->add_merge(left, right))
      merges.at(i).refuse("two tokens of the vocabulary that make a third");
  }
  return model;
}

ModelPointer make_bpe(Vocabulary vocabulary, const Merges& merges, const std::string& where) {
  auto model = std::make_unique<Bpe>(std::move(vocabulary), BpeOptions{}, where);
  for (const auto& [left, right] : merges) {
    if (model->add_merge(left, right)) continue;
    throw DataError(where + ": the line \"" + (left + " " + right).substr(0, 80) +
                    "\" is no merge; expected two tokens of vocab.json, with a space between "
                    "them, that make a third");
  }
  return model;
}

}  // namespace runtime::tokenizer
