// The model Unigram.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/error.h"
#include "runtime/tokenizer/model.h"
#include "runtime/tokenizer/trie.h"
#include "runtime/tokenizer/utf8.h"

namespace runtime::tokenizer {
namespace {

// The best tokens that end at one byte of a piece.
struct Ending {
  double score = 0;
  int64_t begin = -1;  // of the last of them; -1: no token ends here
  int32_t id = kNoToken;
};

class Unigram final : public Model {
 public:
  // `unknown` is the id of characters without a token, or kNoToken; with `bytes` they become tokens
  // of their bytes.
  Unigram(Vocabulary all, std::vector<double> scores, int32_t unknown, bool bytes,
          std::string where)
      : Model(std::move(all)),
        scores_(std::move(scores)),
        unknown_(unknown),
        bytes_(bytes),
        where_(std::move(where)) {
    constexpr double kPenalty = 10;  // below the worst token, as in SentencePiece
    unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kPenalty;
    std::vector<Trie::Key> keys;
    for (const auto& [token, id] : vocabulary().ids()) keys.emplace_back(token, id);
    tokens_ = Trie(std::move(keys));
  }

  // Viterbi's algorithm.
  void tokenize(std::string_view piece, std::vector<int32_t>& ids) const override {
    std::vector<Ending> endings(piece.size() + 1);
    for (std::size_t at = 0; at < piece.size();) {
      std::size_t next = at;
      next_code_point(piece, next);
      const auto offer = [&](std::size_t length, int32_t id, double score) {
        Ending& ending = endings[at + length];
        const double sum = endings[at].score + score;
        if (ending.begin < 0 || sum > ending.score) ending = {sum, static_cast<int64_t>(at), id};
      };
      bool has_token = false;  // of this character alone
      tokens_.each_prefix(piece.substr(at), [&](std::size_t length, int32_t id) {
        offer(length, id, scores_[static_cast<std::size_t>(id)]);
        has_token |= at + length == next;
      });
      if (!has_token) offer(next - at, kNoToken, unknown_score_);
      at = next;
    }
    write(piece, endings, ids);
  }

 private:
  bool is_unknown(const Ending& ending) const {
    return ending.id == kNoToken || ending.id == unknown_;
  }

  void write(std::string_view piece, const std::vector<Ending>& endings,
             std::vector<int32_t>& ids) const {
    std::vector<std::string_view> parts;
    bool joins = false;  // whether the part behind is unknown, too
    for (std::size_t end = piece.size(); end > 0;) {
      const Ending& ending = endings[end];
      const auto begin = static_cast<std::size_t>(ending.begin);
      const std::string_view part = piece.substr(begin, end - begin);
      if (joins && is_unknown(ending))
        parts.back() = piece.substr(begin, part.size() + parts.back().size());
      else
        parts.push_back(part);
      joins = is_unknown(ending);
      end = begin;
    }
    std::reverse(parts.begin(), parts.end());
    for (const std::string_view part : parts) add(part, ids);
  }

  void add(std::string_view part, std::vector<int32_t>& ids) const {
    if (const int32_t id = vocabulary().find(part); id != kNoToken) return ids.push_back(id);
    if (bytes_ && vocabulary().append_bytes(part, ids)) return;
    if (unknown_ == kNoToken) {
      throw DataError(where_ + ": the text has \"" + std::string(part.substr(0, 40)) +
                      "\", for which there is no token; expected unk_id or byte_fallback");
    }
    ids.push_back(unknown_);
  }

  std::vector<double> scores_;  // by id
  double unknown_score_ = 0;
  int32_t unknown_;
  bool bytes_;
  std::string where_;
  Trie tokens_;
};

}  // namespace

ModelPointer read_unigram(const Element& element) {
  const Element list = element.at("vocab");
  if (!list.json().is_array() || list.json().empty() || list.json().size() >= kMostTokens)
    list.refuse("an array of [token, score], with one at least");
  Vocabulary vocabulary;
  std::vector<double> scores;
  for (std::size_t i = 0; i < list.json().size(); ++i) {
    const nlohmann::json& row = list.json()[i];
    if (!row.is_array() || row.size() != 2 || !row[0].is_string() || !row[1].is_number())
      list.at(i).refuse("an array of a token and its score");
    vocabulary.add(row[0].get<std::string>(), static_cast<int32_t>(i));
    scores.push_back(row[1].get<double>());
  }
  const auto last = static_cast<int64_t>(scores.size()) - 1;
  const int64_t unknown =
      element.has("unk_id") ? element.at("unk_id").number(0, last) : int64_t{kNoToken};
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores),
                                   static_cast<int32_t>(unknown),
                                   element.flag("byte_fallback", false), element.where());
}

}  // namespace runtime::tokenizer
