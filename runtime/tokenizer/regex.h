// Regular expressions as the library `tokenizers` has them: those of Oniguruma.
#ifndef RUNTIME_TOKENIZER_REGEX_H_
#define RUNTIME_TOKENIZER_REGEX_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace runtime::tokenizer {

// The bytes begin..end-1 of a text.
struct Range {
  std::size_t begin = 0, end = 0;
};

// A compiled pattern, which is immutable; any thread may use it.
class Regex {
 public:
  // Throws DataError "<where>: ..." for a pattern that is none, or too large.
  Regex(const std::string& pattern, const std::string& where);
  // Calls visit(range) for each match in a UTF-8 text, from left to right. An empty match directly
  // behind another match is none. Throws DataError if the search takes more steps back than a
  // sensible pattern needs.
  void each_match(std::string_view text, const std::function<void(Range)>& visit) const;

 private:
  std::shared_ptr<void> compiled_;
  std::string where_;
};

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_REGEX_H_
