// Decodes the last ids again and again, and tells what is new.
#include "runtime/tokenizer/text_stream.h"

#include "runtime/tokenizer/utf8.h"

namespace runtime::tokenizer {
namespace {

// More ids than the bytes of any character.
constexpr std::size_t kMostWaiting = 16;

}  // namespace

std::string TextStream::add(int32_t id) {
  ids_.push_back(id);
  return text_behind_shown(ids_.size() - context_ > kMostWaiting);
}

std::string TextStream::finish() { return text_behind_shown(true); }

std::string TextStream::text_behind_shown(bool last) {
  const std::string text = tokenizer_.decode(ids_);
  if (text.size() <= shown_.size()) return "";
  if (!last && with_replacements(text).ends_with("\uFFFD")) return "";
  std::string added = text.substr(shown_.size());
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(context_));
  context_ = ids_.size();
  shown_ = tokenizer_.decode(ids_);
  return added;
}

}  // namespace runtime::tokenizer
