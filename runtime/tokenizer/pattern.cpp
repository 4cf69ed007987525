// Searches for texts and regular expressions, and replaces them.
#include "runtime/tokenizer/pattern.h"

namespace runtime::tokenizer {

void Pattern::each_match(std::string_view text, const std::function<void(Range)>& visit) const {
  if (regex_) return regex_->each_match(text, visit);
  if (text_.empty()) return;
  for (std::size_t at = text.find(text_); at != std::string_view::npos;
       at = text.find(text_, at + text_.size()))
    visit({at, at + text_.size()});
}

bool Pattern::matches_at_begin(std::string_view text) const {
  bool found = false;
  each_match(text, [&](Range match) { found |= match.begin == 0 && match.end > 0; });
  return found;
}

std::string Pattern::replaced(std::string_view text, std::string_view content) const {
  std::string result;
  std::size_t done = 0;
  each_match(text, [&](Range match) {
    result += text.substr(done, match.begin - done);
    result += content;
    done = match.end;
  });
  return result += text.substr(done);
}

Pattern read_pattern(const Element& element) {
  if (element.has("String")) return Pattern(element.at("String").text());
  const Element regex = element.at("Regex");
  return Pattern(Regex(regex.text(), regex.where()));
}

}  // namespace runtime::tokenizer
