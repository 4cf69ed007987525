// Checks the prefix tree.
#include "runtime/tokenizer/trie.h"

#include <gmock/gmock.h>

#include <map>
#include <random>
#include <string>

namespace runtime::tokenizer {
namespace {

TEST(Trie, FindsWhatASearchOfAllKeysFinds) {
  std::mt19937 random(1);
  std::map<std::string, int32_t> keys;
  for (int i = 0; i < 500; ++i) {
    std::string key;
    for (std::size_t n = random() % 6; n > 0; --n)
      key += static_cast<char>("ab\xFF\0"[random() % 4]);
    if (!key.empty()) keys.emplace(key, i);
  }
  std::vector<Trie::Key> list(keys.begin(), keys.end());
  std::shuffle(list.begin(), list.end(), random);
  const Trie trie(list);
  for (int i = 0; i < 500; ++i) {
    std::string text;
    for (std::size_t n = random() % 9; n > 0; --n)
      text += static_cast<char>("ab\xFF\0"[random() % 4]);
    std::vector<std::pair<std::size_t, int32_t>> expected, found;
    for (std::size_t n = 1; n <= text.size(); ++n) {
      if (const auto it = keys.find(text.substr(0, n)); it != keys.end())
        expected.emplace_back(n, it->second);
    }
    trie.each_prefix(text, [&](std::size_t n, int32_t value) { found.emplace_back(n, value); });
    ASSERT_EQ(found, expected);
    const auto longest = trie.longest_prefix(text);
    ASSERT_EQ(longest.has_value(), !expected.empty());
    if (longest) {
      EXPECT_EQ(longest->length, expected.back().first);
    }
  }
}

TEST(Trie, TheFirstOfEqualKeysCounts) {
  const Trie trie({{"b", 1}, {"a", 2}, {"a", 3}, {"", 4}});
  EXPECT_EQ(trie.longest_prefix("a")->value, 2);
  EXPECT_FALSE(trie.longest_prefix("").has_value());
  EXPECT_FALSE(Trie().longest_prefix("a").has_value());
}

}  // namespace
}  // namespace runtime::tokenizer
