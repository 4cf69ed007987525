// Conversion between text and token ids.
#ifndef RUNTIME_TOKENIZER_TOKENIZER_H_
#define RUNTIME_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace runtime::tokenizer {

using Ids = std::span<const int32_t>;

// One or two texts as a network reads them.
struct Marked {
  std::vector<int32_t> ids;  // with special tokens, for example those that begin and end a text
  std::vector<int32_t> segments;  // of each token: usually 0 in the first text and 1 in the second
};

// A tokenizer, which is immutable; any thread may use it.
class Tokenizer {
 public:
  using Emit = std::function<void(int32_t id)>;
  virtual ~Tokenizer() = default;
  // Returns the number of ids, which are 0..vocabulary()-1.
  virtual int64_t vocabulary() const = 0;
  // Calls emit(id) for each token of the text, without special tokens around it. Throws DataError
  // "<name>: at byte <n>: ..." for text that has no ids. Equivalent to: `Tokenizer.encode(text,
  // add_special_tokens=False)` of the library tokenizers.
  virtual void encode(std::string_view text, const std::string& name, const Emit& emit) const = 0;
  // Returns the text of a sequence of ids. The text of tokens that are bytes may begin and end
  // within a character. An id without a token has no text.
  virtual std::string decode(Ids ids) const = 0;
  // Returns the ids of a text, or of two texts, with the special tokens around them, if there are
  // any.
  virtual Marked marked(Ids first, std::optional<Ids> second = std::nullopt) const;
  // Whether an id is that of a special token, which a reader of the text need not see.
  virtual bool is_special(int32_t) const { return false; }
};
using TokenizerPointer = std::unique_ptr<const Tokenizer>;

// The content of a file and its name, for messages.
struct NamedText {
  std::string name, text;
};
// Makes the tokenizer that a tokenizer.json describes (format 1.0 of the library tokenizers of
// Hugging Face). Throws DataError for what is no such file, and for what this room does not have
// (README.md). The keys `truncation` and `padding` are not used.
TokenizerPointer read_tokenizer(const NamedText& json);
// Makes GPT-2's byte-pair encoding from the contents of its two files, vocab.json and merges.txt.
// No text is encoded as one of its special tokens.
TokenizerPointer make_gpt2_tokenizer(const NamedText& vocabulary, const NamedText& merges);

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_TOKENIZER_H_
