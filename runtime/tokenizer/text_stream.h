// Text that grows token by token.
#ifndef RUNTIME_TOKENIZER_TEXT_STREAM_H_
#define RUNTIME_TOKENIZER_TEXT_STREAM_H_

#include <string>
#include <vector>

#include "runtime/tokenizer/tokenizer.h"

namespace runtime::tokenizer {

// Writes the text of ids as they come, although the text of an id may depend on those before it.
// One thread uses an object. Equivalent to: `DecodeStream` of the library tokenizers.
class TextStream {
 public:
  // The tokenizer must outlive the object.
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  // Returns the text that an id adds. It is empty where a character is not complete yet.
  std::string add(int32_t id);
  // Returns what is left of the text, for example the first bytes of a character.
  std::string finish();

 private:
  std::string text_behind_shown(bool last);

  const Tokenizer& tokenizer_;
  std::vector<int32_t> ids_;  // those since the last but one text
  std::size_t context_ = 0;   // ids whose text is shown
  std::string shown_;         // the text of the context
};

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_TEXT_STREAM_H_
