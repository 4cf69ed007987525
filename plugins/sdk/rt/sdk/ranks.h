// Lists of ranks in messages.
#ifndef RT_SDK_RANKS_H_
#define RT_SDK_RANKS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace rt::sdk {

// Returns "rank 2", "ranks 0, 1 and 3", and "ranks 3, 5, 7 and 12 others" for more than eight.
// `number` writes a rank.
template <class Number>
std::string rank_list(const std::vector<int>& ranks, Number&& number) {
  constexpr std::size_t kMostNamed = 8, kNamedOfMore = 3;
  const std::size_t named = ranks.size() > kMostNamed ? kNamedOfMore : ranks.size();
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < named; ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += number(ranks[i]);
  }
  if (named < ranks.size()) text += " and " + std::to_string(ranks.size() - named) + " others";
  return text;
}

// The same with ranks as plain numbers.
inline std::string rank_list(const std::vector<int>& ranks) {
  return rank_list(ranks, [](int rank) { return std::to_string(rank); });
}

}  // namespace rt::sdk

#endif  // RT_SDK_RANKS_H_
