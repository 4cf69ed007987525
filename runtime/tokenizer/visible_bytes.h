// Bytes as visible characters, as byte-level vocabularies write their tokens.
#ifndef RUNTIME_TOKENIZER_VISIBLE_BYTES_H_
#define RUNTIME_TOKENIZER_VISIBLE_BYTES_H_

#include <string>
#include <string_view>

namespace runtime::tokenizer {

// Returns a character for each byte: printable bytes of Latin-1 are themselves, the others U+0100,
// U+0101, ... in their order.
std::string visible_bytes(std::string_view bytes);
// Returns the byte that a character stands for; -1: none.
int byte_of(char32_t visible);

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_VISIBLE_BYTES_H_
