// The tokenizers of data sets, by their names.
#ifndef RUNTIME_DATA_TOKENIZER_H_
#define RUNTIME_DATA_TOKENIZER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/data/open.h"
#include "runtime/tokenizer/tokenizer.h"

namespace runtime::data {

using tokenizer::Tokenizer;
using tokenizer::TokenizerPointer;

// Returns the different characters of a UTF-8 text, in the order of their code points. Throws
// DataError.
std::string characters_of(std::string_view text, const std::string& name);

// Whether the tokenizer of this name needs the characters of the text.
bool learns_characters(const std::string& tokenizer);

// Returns what tells the tokenizer of the options from others: its name, and the checksum of its
// tokenizer.json if it has one. It is saved with the weights. Throws DataError.
std::string tokenizer_identity(const DatasetOptions& options);

// Makes the tokenizer that options.tokenizer names. "char" takes `characters` in the order of their
// ids; "" reads and writes numbers below `vocabulary`, separated by spaces.
TokenizerPointer make_tokenizer(const DatasetOptions& options, const std::string& characters,
                                int64_t vocabulary);

// The token whose text is `text`, the value of a key of [dataset]. Throws ConfigurationError.
int32_t token_of(const std::string& key, const std::string& text, const Tokenizer& tokenizer);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_TOKENIZER_H_
