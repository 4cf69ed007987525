// Decoders: how tokens become text again.
#ifndef RUNTIME_TOKENIZER_DECODER_H_
#define RUNTIME_TOKENIZER_DECODER_H_

#include <functional>
#include <string>
#include <vector>

#include "runtime/tokenizer/element.h"

namespace runtime::tokenizer {

// Changes a list of tokens into texts, which are then joined; the texts of byte-level vocabularies
// are bytes and need not be UTF-8. Any thread may call it. Null: tokens are joined with blanks.
using Decoder = std::function<void(std::vector<std::string>& tokens)>;

// Reads the element `decoder` of a tokenizer.json, which may be null.
Decoder read_decoder(const Element& element);
// The decoder ByteLevel: each visible character is a byte.
void decode_visible_bytes(std::vector<std::string>& tokens);

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_DECODER_H_
