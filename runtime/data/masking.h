// Hides tokens of a text from a model that learns to fill them in.
#ifndef RUNTIME_DATA_MASKING_H_
#define RUNTIME_DATA_MASKING_H_

#include <cstdint>
#include <span>
#include <vector>

namespace runtime::data {

// Which tokens are hidden, and what stands in their places (Devlin et al., "BERT: Pre-training of
// Deep Bidirectional Transformers for Language Understanding", 2019): the mask in 8 of 10, a random
// token in 1 of 10, and the token itself in 1 of 10. Equivalent to: DataCollatorForLanguageModeling
// of transformers with mlm = True.
struct TokenMasking {
  // The input of samples, float32 [length], with 1 for each token that is hidden, else 0.
  static constexpr const char* kInput = "masked";

  double share = 0;        // of the tokens
  int32_t mask = 0;        // the token that stands for a hidden one
  int64_t vocabulary = 0;  // random tokens are below it
  std::vector<bool> kept;  // by token: it is never hidden; empty: all may be
};

// Changes the tokens of a sample in place and writes which ones are hidden. The choice depends only
// on `seed`, the epoch and the sample's number in the data set.
void mask_tokens(const TokenMasking& masking, uint64_t seed, int64_t epoch, int64_t sample,
                 std::span<float> tokens, float* hidden);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_MASKING_H_
