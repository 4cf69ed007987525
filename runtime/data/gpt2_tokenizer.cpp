// Byte-pair encoding as GPT-2 does it (Radford et al., "Language Models are Unsupervised Multitask
// Learners", 2019). Text is split into pieces, and the bytes of a piece are its first symbols. As
// long as two neighbouring symbols are a pair in the list of merges, the pair that is earliest in
// the list becomes one symbol.
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "runtime/data/source.h"
#include "runtime/data/tokenizer.h"
#include "runtime/data/utf8.h"

namespace runtime::data {
namespace {

// The files write each byte as a visible character: printable bytes of Latin-1 as themselves, the
// others as U+0100, U+0101, ... in their order.
std::array<char32_t, 256> byte_characters() {
  std::array<char32_t, 256> table{};
  char32_t next = 256;
  for (char32_t b = 0; b < 256; ++b) {
    const bool visible = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
    table[b] = visible ? b : next++;
  }
  return table;
}

CharacterClass class_at(std::string_view text, std::size_t at, const std::string& name) {
  return at < text.size() ? classify(next_code_point(text, at, name)) : CharacterClass::kSpace;
}

struct Merge {
  int32_t rank, id;
};

// A node of a linked list in an array. A symbol that was merged into the one before it has the id
// -1.
struct Symbol {
  int32_t id;
  int64_t before, after;  // indices; -1: none
};

struct Candidate {
  int32_t rank;
  int64_t left;
  int32_t left_id, right_id;
  bool operator<(const Candidate& other) const {  // top: the earliest merge, then the leftmost
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

class Gpt2Tokenizer final : public Tokenizer {
 public:
  Gpt2Tokenizer(const NamedText& vocabulary, const NamedText& merges) {
    const std::map<std::string, int32_t> ids = read_vocabulary(vocabulary);
    const std::array<char32_t, 256> characters = byte_characters();
    std::unordered_map<char32_t, uint8_t> bytes;
    for (std::size_t b = 0; b < 256; ++b) {
      std::string symbol;
      append_utf8(symbol, characters[b]);
      const auto it = ids.find(symbol);
      if (it == ids.end())
        fail_at(vocabulary.name, 0, "no token is the byte " + std::to_string(b) + " alone");
      byte_ids_[b] = it->second;
      bytes[characters[b]] = static_cast<uint8_t>(b);
    }
    texts_.resize(ids.size());
    for (const auto& [token, id] : ids) texts_[id] = bytes_of(token, bytes, vocabulary.name);
    read_merges(merges, ids);
  }

  int64_t vocabulary() const override { return static_cast<int64_t>(texts_.size()); }

  void encode(std::string_view text, const std::string& name, const Emit& emit) const override {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = gpt2_piece_end(text, at, name);
      encode_piece(text.substr(at, end - at), emit);
      at = end;
    }
  }

  std::string decode(int32_t id) const override { return texts_[static_cast<std::size_t>(id)]; }

 private:
  // Reads the ids, which must be 0, 1, 2, ... without gaps or duplicates.
  static std::map<std::string, int32_t> read_vocabulary(const NamedText& file) {
    const nlohmann::json json = nlohmann::json::parse(file.text, nullptr, false);
    if (!json.is_object()) fail_at(file.name, 0, "no JSON object; expected {\"token\": id, ...}");
    std::map<std::string, int32_t> ids;
    std::vector<bool> seen(json.size());
    for (const auto& [token, id] : json.items()) {
      const bool valid = id.is_number_unsigned() && id.get<uint64_t>() < seen.size();
      if (!valid || seen[id.get<uint64_t>()]) {
        fail_at(file.name, 0,
                "token \"" + token + "\" has the id " + id.dump() + "; expected each of 0.." +
                    std::to_string(seen.size() - 1) + " once");
      }
      seen[id.get<uint64_t>()] = true;
      ids.emplace(token, id.get<int32_t>());
    }
    return ids;
  }

  static std::string bytes_of(const std::string& token,
                              const std::unordered_map<char32_t, uint8_t>& bytes,
                              const std::string& name) {
    std::string text;
    for (std::size_t at = 0; at < token.size();) {
      const auto it = bytes.find(next_code_point(token, at, name));
      if (it == bytes.end())
        fail_at(name, 0, "token \"" + token + "\" has a character for no byte");
      text += static_cast<char>(it->second);
    }
    return text;
  }

  // Reads lines "left right", the earliest merge first, after a line with the version.
  void read_merges(const NamedText& file, const std::map<std::string, int32_t>& ids) {
    int32_t rank = 0;
    for (std::size_t at = 0; at < file.text.size();) {
      const std::size_t end = std::min(file.text.find('\n', at), file.text.size());
      std::string line = file.text.substr(at, end - at);
      if (line.ends_with('\r')) line.pop_back();  // lines may end as those of Windows do
      if (!line.empty() && !line.starts_with("#version")) {
        const std::size_t space = line.find(' ');
        const std::string left = line.substr(0, space);
        const std::string right = space == std::string::npos ? "" : line.substr(space + 1);
        const auto l = ids.find(left), r = ids.find(right), both = ids.find(left + right);
        if (l == ids.end() || r == ids.end() || both == ids.end()) {
          fail_at(file.name, at,
                  "the line \"" + line.substr(0, 80) +
                      "\" is no merge; expected two tokens of vocab.json, with a space between "
                      "them, that make a third");
        }
        merges_.emplace(key(l->second, r->second), Merge{rank++, both->second});
      }
      at = end + 1;
    }
  }

  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }

  // The queue encodes a piece of n bytes in time n log n, whatever it contains.
  void encode_piece(std::string_view piece, const Emit& emit) const {
    std::vector<Symbol> symbols;
    const auto size = static_cast<int64_t>(piece.size());
    for (int64_t i = 0; i < size; ++i) {
      const int32_t id = byte_ids_[static_cast<uint8_t>(piece[static_cast<std::size_t>(i)])];
      symbols.push_back({id, i - 1, i + 1 < size ? i + 1 : -1});
    }
    std::priority_queue<Candidate> queue;
    const auto consider = [&](int64_t left) {
      if (left < 0 || symbols[left].after < 0) return;
      const int32_t l = symbols[left].id, r = symbols[symbols[left].after].id;
      const auto it = merges_.find(key(l, r));
      if (it != merges_.end()) queue.push({it->second.rank, left, l, r});
    };
    for (int64_t i = 0; i < size; ++i) consider(i);
    while (!queue.empty()) {
      const Candidate c = queue.top();
      queue.pop();
      Symbol& left = symbols[c.left];
      // One of the two symbols may have become part of another one since the candidate was queued.
      if (left.id != c.left_id || left.after < 0 || symbols[left.after].id != c.right_id) continue;
      Symbol& right = symbols[left.after];
      left.id = merges_.at(key(c.left_id, c.right_id)).id;
      right.id = -1;
      left.after = right.after;
      if (left.after >= 0) symbols[left.after].before = c.left;
      consider(left.before);
      consider(c.left);
    }
    for (const Symbol& symbol : symbols) {
      if (symbol.id >= 0) emit(symbol.id);
    }
  }

  std::array<int32_t, 256> byte_ids_{};
  std::vector<std::string> texts_;  // bytes of each token, indexed by id
  std::unordered_map<uint64_t, Merge> merges_;
};

}  // namespace

std::size_t gpt2_piece_end(std::string_view text, std::size_t begin, const std::string& name) {
  for (const std::string_view suffix : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.substr(begin, suffix.size()) == suffix) return begin + suffix.size();
  }
  std::size_t at = begin + (text[begin] == ' ' ? 1 : 0);
  const CharacterClass kind = class_at(text, at, name);
  if (kind == CharacterClass::kSpace) at = begin;
  std::size_t last = at;
  while (at < text.size() && class_at(text, at, name) == kind) {
    last = at;
    next_code_point(text, at, name);
  }
  // The last of several spaces before a word belongs to the word.
  const bool leave = kind == CharacterClass::kSpace && at < text.size() && last > begin;
  return leave ? last : at;
}

std::unique_ptr<const Tokenizer> make_gpt2_tokenizer(const NamedText& vocabulary,
                                                     const NamedText& merges) {
  return std::make_unique<Gpt2Tokenizer>(vocabulary, merges);
}

}  // namespace runtime::data
