// Text from a language model, one token after the other.
#ifndef RUNTIME_TRAIN_GENERATE_H_
#define RUNTIME_TRAIN_GENERATE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/train/trainer.h"

namespace runtime::train {

// How the next token is drawn from the logits.
struct Sampling {
  double temperature = 0.8;  // divides the logits; 0: always the most likely token
  int64_t top_k = 200;       // draws among so many of the most likely tokens; 0: among all
  uint64_t seed = 42;
};

// Draws token number `position` of a text. The same arguments give the same token. Throws
// NumericError if a logit is not finite.
int32_t sample_token(std::span<const double> logits, const Sampling& sampling, uint64_t position);

// Generates a text. Used by one thread; the trainer must outlive it and have samples that are
// windows of spec.shape[0] tokens.
class Generator {
 public:
  // `prompt` has at least one id. Of a prompt longer than a window, the model sees the end.
  Generator(Trainer& trainer, const data::SampleSpec& spec, const Sampling& sampling,
            std::vector<int32_t> prompt);
  // Generates a token and appends it to the sliding window from which the next one is generated.
  int32_t next();

 private:
  Trainer& trainer_;
  int64_t vocabulary_;
  Sampling sampling_;
  std::vector<int32_t> ids_;  // tokens that the model sees
  data::Batch batch_;
  uint64_t position_ = 0;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_GENERATE_H_
