// Normalizers: what happens to a text before it is cut into pieces.
#ifndef RUNTIME_TOKENIZER_NORMALIZER_H_
#define RUNTIME_TOKENIZER_NORMALIZER_H_

#include <functional>
#include <string>

#include "runtime/tokenizer/element.h"

namespace runtime::tokenizer {

// A stretch of text between two added tokens.
struct Stretch {
  std::string text;       // UTF-8
  bool at_start = false;  // its first character was the first one of the whole text
};

// Changes a text; any thread may call it. Null: the text stays as it is.
using Normalizer = std::function<void(Stretch& stretch)>;

// Reads the element `normalizer` of a tokenizer.json, which may be null.
Normalizer read_normalizer(const Element& element);
// Reads the normalizer Precompiled: a table of SentencePiece, in base 64.
Normalizer read_precompiled(const Element& element);

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_NORMALIZER_H_
