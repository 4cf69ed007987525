// Conversion between text and token ids.
#ifndef RUNTIME_DATA_TOKENIZER_H_
#define RUNTIME_DATA_TOKENIZER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/data/open.h"

namespace runtime::data {

// A tokenizer, which is immutable; any thread may use it.
class Tokenizer {
 public:
  using Emit = std::function<void(int32_t id)>;
  virtual ~Tokenizer() = default;
  virtual int64_t vocabulary() const = 0;  // ids are 0..vocabulary()-1
  // Calls emit(id) for each token of the text. Throws DataError "<name>: at byte <n>: ..." for text
  // that has no ids.
  virtual void encode(std::string_view text, const std::string& name, const Emit& emit) const = 0;
  // Returns the bytes of a token, which may begin or end within a character.
  virtual std::string decode(int32_t id) const = 0;
};

// Returns the different characters of a UTF-8 text, in the order of their code points. Throws
// DataError.
std::string characters_of(std::string_view text, const std::string& name);

// Whether the tokenizer of this name needs the characters of the text.
bool learns_characters(const std::string& tokenizer);

// Makes the tokenizer that options.tokenizer names. "char" takes `characters` in the order of their
// ids; "" reads and writes numbers below `vocabulary`, separated by spaces.
std::unique_ptr<const Tokenizer> make_tokenizer(const DatasetOptions& options,
                                                const std::string& characters, int64_t vocabulary);

// The content of a file and its name, for messages.
struct NamedText {
  std::string name, text;
};
// Makes GPT-2's byte-pair encoding from the contents of its two files.
std::unique_ptr<const Tokenizer> make_gpt2_tokenizer(const NamedText& vocabulary,
                                                     const NamedText& merges);
// Returns where the piece of a UTF-8 text that begins at `begin` ends. No token spans two pieces.
// Pieces follow GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// with \p{L}, \p{N} and \s as classify() in utf8.h defines them.
std::size_t gpt2_piece_end(std::string_view text, std::size_t begin, const std::string& name);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_TOKENIZER_H_
