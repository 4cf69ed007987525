// Pre-tokenizers: how a normalized text is cut into pieces. No token spans two pieces.
#ifndef RUNTIME_TOKENIZER_PRE_TOKENIZER_H_
#define RUNTIME_TOKENIZER_PRE_TOKENIZER_H_

#include <functional>
#include <string_view>

#include "runtime/tokenizer/element.h"

namespace runtime::tokenizer {

struct Piece {
  std::string_view text;  // UTF-8, not empty
  bool at_start = false;  // its first character was the first one of the whole text
};
using EmitPiece = std::function<void(const Piece& piece)>;

// Emits the pieces of a piece in their order; a piece is valid until the call returns. Any thread
// may call it. Null: the piece stays whole.
using PreTokenizer = std::function<void(const Piece& piece, const EmitPiece& emit)>;

// Reads the element `pre_tokenizer` of a tokenizer.json, which may be null.
PreTokenizer read_pre_tokenizer(const Element& element);
// Returns the pre-tokenizer ByteLevel of GPT-2, which cuts by the pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// and writes bytes as visible characters. `space` puts a blank before a text without one.
PreTokenizer byte_level(bool space, bool cuts);

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_PRE_TOKENIZER_H_
