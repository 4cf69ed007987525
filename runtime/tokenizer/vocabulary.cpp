// Holds tokens by id and ids by token.
#include "runtime/tokenizer/vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace runtime::tokenizer {

void Vocabulary::add(const std::string& token, int32_t id) {
  const auto it = ids_.insert_or_assign(token, id).first;
  tokens_[id] = &it->first;
  end_ = std::max<int64_t>(end_, int64_t{id} + 1);
}

int32_t Vocabulary::find(std::string_view token) const {
  const auto it = ids_.find(token);
  return it == ids_.end() ? kNoToken : it->second;
}

bool Vocabulary::append_bytes(std::string_view text, std::vector<int32_t>& ids) const {
  constexpr char kDigits[] = "0123456789ABCDEF";
  const std::size_t before = ids.size();
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    const char token[] = {'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
    ids.push_back(find(std::string_view(token, sizeof(token))));
    if (ids.back() != kNoToken) continue;
    ids.resize(before);
    return false;
  }
  return true;
}

const std::string* Vocabulary::token(int32_t id) const {
  const auto it = tokens_.find(id);
  return it == tokens_.end() ? nullptr : it->second;
}

Vocabulary read_vocabulary(const Element& element) {
  if (!element.json().is_object()) element.refuse("an object of tokens and their ids");
  Vocabulary vocabulary;
  for (const auto& [token, id] : element.json().items()) {
    // Most ids are right, and the place of the others is worth its text.
    const bool fits = id.is_number_unsigned() && id.get<uint64_t>() < kMostTokens;
    if (!fits) Element(id, element.where() + "." + token.substr(0, 60)).number(0, kMostTokens - 1);
    vocabulary.add(token, id.get<int32_t>());
  }
  return vocabulary;
}

}  // namespace runtime::tokenizer
