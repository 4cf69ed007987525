// Patterns of normalizers, pre-tokenizers and decoders: a text or a regular expression.
#ifndef RUNTIME_TOKENIZER_PATTERN_H_
#define RUNTIME_TOKENIZER_PATTERN_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/tokenizer/element.h"
#include "runtime/tokenizer/regex.h"

namespace runtime::tokenizer {

// Something to search for in UTF-8 text, which is immutable; any thread may use it.
class Pattern {
 public:
  // A literal text. An empty one is never found.
  explicit Pattern(std::string text) : text_(std::move(text)) {}
  explicit Pattern(Regex regex) : regex_(std::move(regex)) {}
  void each_match(std::string_view text, const std::function<void(Range)>& visit) const;
  // Whether the text begins with a match that has a character at least.
  bool matches_at_begin(std::string_view text) const;
  // Returns the text with `content` in place of each match.
  std::string replaced(std::string_view text, std::string_view content) const;

 private:
  std::string text_;
  std::optional<Regex> regex_;
};

// Reads {"String": "..."} or {"Regex": "..."}.
Pattern read_pattern(const Element& element);

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_PATTERN_H_
