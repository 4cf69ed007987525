// The tokens of texts as pieces of bytes: in memory, or in files.
#ifndef RUNTIME_DATA_TEXT_PIECES_H_
#define RUNTIME_DATA_TEXT_PIECES_H_

#include <functional>
#include <string>

#include "runtime/data/dataset_options.h"
#include "runtime/data/tokenizer.h"
#include "runtime/system/host_memory.h"

namespace runtime::data {

// The pieces hold, in this order, the characters of a tokenizer that learns them, the tokens of the
// training text and, if it has a file of its own, of the validation text.
enum TextPiece : std::size_t { kCharacters, kTrain, kValidation };

// Whether the ids of a tokenizer are numbers of 16 bits in a piece, else of 32.
bool is_narrow(const Tokenizer& tokenizer);

// Reads the texts that the options name and writes their pieces; `check` is called with the
// tokenizer before that. Throws DataError, ConfigurationError and what `check` throws.
void encode_texts(const DatasetOptions& options, const std::function<void(const Tokenizer&)>& check,
                  system::Pieces& pieces);

// The files that hold the tokens of a text, as format tokens reads them.
struct TokenFiles {
  std::string token_type;  // uint16 or uint32
  int64_t train = 0;       // tokens in train.bin
  int64_t validation = 0;  // tokens in validation.bin; 0: there is no such file
  int64_t vocabulary = 0;
};

// Writes the tokens of the texts into train.bin and validation.bin in `folder`, which takes no more
// memory than the larger text. The options are those of format text. Throws DataError and
// ConfigurationError. Equivalent to: data/openwebtext/prepare.py of nanoGPT.
TokenFiles write_token_files(const DatasetOptions& options, const std::string& folder);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_TEXT_PIECES_H_
