// Compiles patterns and searches with Oniguruma.
#include "runtime/tokenizer/regex.h"

#include <oniguruma.h>

#include "runtime/error.h"
#include "runtime/tokenizer/utf8.h"

namespace runtime::tokenizer {
namespace {

constexpr std::size_t kMostPatternBytes = 64 << 10;  // those of known models have less than 1 KiB
// Steps back that one search may take: some, and some for each byte of the text.
constexpr unsigned long kStepsBack = 1'000'000, kStepsBackPerByte = 20;

const OnigUChar* characters(const char* text) { return reinterpret_cast<const OnigUChar*>(text); }

std::string message_of(int code, OnigErrorInfo* info) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN] = {};
  const int length = info == nullptr ? onig_error_code_to_str(text, code)
                                     : onig_error_code_to_str(text, code, info);
  return std::string(reinterpret_cast<const char*>(text), static_cast<std::size_t>(length));
}

// Oniguruma builds its tables once.
void initialize_library() {
  static const bool done = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    return onig_initialize(encodings, 1) == ONIG_NORMAL;
  }();
  if (!done) throw InternalError("Oniguruma cannot be initialised");
}

void free_region(OnigRegion* region) { onig_region_free(region, 1); }

}  // namespace

Regex::Regex(const std::string& pattern, const std::string& where) : where_(where) {
  initialize_library();
  if (pattern.size() > kMostPatternBytes) {
    throw DataError(where + ": the pattern has " + std::to_string(pattern.size()) +
                    " bytes; expected at most " + std::to_string(kMostPatternBytes));
  }
  OnigRegex regex = nullptr;
  OnigErrorInfo info = {};
  const OnigUChar* begin = characters(pattern.data());
  const int code = onig_new(&regex, begin, begin + pattern.size(), ONIG_OPTION_NONE,
                            ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &info);
  if (code != ONIG_NORMAL) {
    throw DataError(where + ": \"" + pattern.substr(0, 200) + "\" is no regular expression: " +
                    message_of(code, &info) + "; expected one of Oniguruma");
  }
  compiled_ = std::shared_ptr<void>(regex, [](void* r) { onig_free(static_cast<OnigRegex>(r)); });
}

void Regex::each_match(std::string_view text, const std::function<void(Range)>& visit) const {
  const std::unique_ptr<OnigRegion, decltype(&free_region)> region(onig_region_new(), free_region);
  const std::unique_ptr<OnigMatchParam, decltype(&onig_free_match_param)> limits(
      onig_new_match_param(), onig_free_match_param);
  onig_initialize_match_param(limits.get());
  onig_set_retry_limit_in_search_of_match_param(limits.get(),
                                                kStepsBack + kStepsBackPerByte * text.size());
  const OnigUChar* begin = characters(text.data());
  const OnigUChar* end = begin + text.size();
  std::size_t last = text.size() + 1;  // where the match before ended
  for (std::size_t at = 0; at <= text.size();) {
    const int found =
        onig_search_with_param(static_cast<OnigRegex>(compiled_.get()), begin, end, begin + at, end,
                               region.get(), ONIG_OPTION_NONE, limits.get());
    if (found == ONIG_MISMATCH) return;
    if (found < 0) {
      throw DataError(where_ + ": the search from byte " + std::to_string(at) + " of " +
                      std::to_string(text.size()) + " failed: " + message_of(found, nullptr) +
                      "; use another pattern, or a text with shorter lines");
    }
    const Range match{static_cast<std::size_t>(region->beg[0]),
                      static_cast<std::size_t>(region->end[0])};
    at = match.end;
    if (match.begin == match.end && match.end == last) {
      if (at == text.size()) return;
      next_code_point(text, at);
    } else {
      last = match.end;
      visit(match);
    }
  }
}

}  // namespace runtime::tokenizer
