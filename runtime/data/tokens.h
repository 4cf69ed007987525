// Sequences of token ids, and the samples of a language model in them.
#ifndef RUNTIME_DATA_TOKENS_H_
#define RUNTIME_DATA_TOKENS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/held.h"

namespace runtime::data {

// Batches hold ids as float32, which represents every integer up to this one.
inline constexpr int64_t kMaxVocabulary = 1 << 24;

// A sequence of token ids, which is immutable; any thread may read it.
class Tokens {
 public:
  virtual ~Tokens() = default;
  virtual int64_t size() const = 0;
  // Writes the ids first..first+count-1, which are within size(). Throws DataError for an id
  // outside of the vocabulary.
  virtual void read(int64_t first, int64_t count, int32_t* out) const = 0;
};

// Returns tokens in host memory.
std::shared_ptr<const Tokens> make_tokens(Held<uint16_t> ids);
std::shared_ptr<const Tokens> make_tokens(Held<int32_t> ids);
// Opens a file of little-endian uint16 or uint32 numbers (`width` 2 or 4 bytes) and nothing else.
// The file stays on disk: a window is read from the page cache when it is asked for. It is not
// mapped, because a mapped file that is truncated or cannot be read while it is in use would end
// the process.
std::shared_ptr<const Tokens> open_token_file(const std::string& path, int width,
                                              int64_t vocabulary);
// Returns generated tokens: token 2i is a random one of the vocabulary, and token 2i + 1 is its
// successor.
std::shared_ptr<const Tokens> make_synthetic_tokens(int64_t size, int64_t vocabulary,
                                                    uint64_t seed);
// Returns the largest id plus one; reads all tokens.
int64_t count_vocabulary(const Tokens& tokens);

// Which windows of a sequence are samples.
struct Windows {
  int64_t begin = 0, end = 0;  // range of the tokens that samples may contain
  int64_t context = 0;         // tokens of one sample
  int64_t stride = 0;          // tokens from the beginning of one window to that of the next
  // The token that ends a document; -1: none is known. With it, or with masking, samples have
  // inputs of integers for each of their tokens: "documents", to which of the window's documents it
  // belongs, "positions", its place in that document, both from 0, and "segments", which are 0.
  int32_t separator = -1;
};

// The inputs that windows of so many tokens have with a separator, or with masking.
std::vector<SampleInput> token_inputs(int64_t context, bool masked);

// Makes a data set whose samples are windows; the labels of a sample are the tokens that follow
// each of its tokens. `spec` gives the vocabulary (as classes) and the characters. With
// spec.masking the labels are the tokens of the window itself, and samples have the input
// TokenMasking::kInput as well, which is 1 for each token until some are hidden. Throws DataError
// if there is no window, or more windows than their order can be stored for.
std::shared_ptr<const Dataset> make_token_dataset(std::shared_ptr<const Tokens> tokens,
                                                  const Windows& windows, SampleSpec spec,
                                                  const std::string& title);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_TOKENS_H_
