// Rows of token ids, and the samples of a language model in them.
#ifndef RUNTIME_DATA_TOKENS_H_
#define RUNTIME_DATA_TOKENS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"

namespace runtime::data {

// Batches hold ids as float32, which has all integers up to here.
inline constexpr int64_t kMaxVocabulary = 1 << 24;

// Immutable; any thread.
class Tokens {
 public:
  virtual ~Tokens() = default;
  virtual int64_t size() const = 0;
  // Ids first..first+count-1, which are within size(). Throws DataError for an id outside the
  // vocabulary.
  virtual void read(int64_t first, int64_t count, int32_t* out) const = 0;
};

std::shared_ptr<const Tokens> make_tokens(std::vector<uint16_t> ids);
// A file of little-endian uint16 or uint32 (`width` 2 or 4) and nothing else, which stays where it
// is: a window is read when it is asked for, out of the page cache. (A mapping would do the same,
// but end the process where the file is cut or cannot be read while it is in use.)
std::shared_ptr<const Tokens> open_token_file(const std::string& path, int width,
                                              int64_t vocabulary);
// Token 2i is a random one of the vocabulary, token 2i + 1 its successor.
std::shared_ptr<const Tokens> make_synthetic_tokens(int64_t size, int64_t vocabulary,
                                                    uint64_t seed);
// The largest id plus one; reads everything.
int64_t count_vocabulary(const Tokens& tokens);

struct Windows {
  int64_t begin = 0, end = 0;  // tokens that samples may have
  int64_t context = 0;         // tokens of a sample
  int64_t stride = 0;          // between their beginnings
};

// A sample is a window, its labels the token after each one of it. `spec` has vocabulary (classes)
// and characters. Throws DataError where there is no window, or more than an order of them can be
// kept for.
std::shared_ptr<const Dataset> make_token_dataset(std::shared_ptr<const Tokens> tokens,
                                                  const Windows& windows, SampleSpec spec,
                                                  const std::string& title);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_TOKENS_H_
