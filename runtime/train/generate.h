// What a language model writes: one token after the other.
#ifndef RUNTIME_TRAIN_GENERATE_H_
#define RUNTIME_TRAIN_GENERATE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/train/trainer.h"

namespace runtime::train {

struct Sampling {
  double temperature = 0.8;  // logits are divided by it; 0: the most likely token, always
  int64_t top_k = 200;       // drawn from so many of the most likely tokens; 0: from all
  uint64_t seed = 42;
};

// The token that is drawn as number `position`: the same for the same arguments. Throws
// NumericError for logits that are no numbers.
int32_t sample_token(std::span<const double> logits, const Sampling& sampling, uint64_t position);

// One thread. The trainer's samples are windows of spec.shape[0] tokens.
class Generator {
 public:
  // `prompt` has at least one id; of a longer one than a window the end counts.
  Generator(Trainer& trainer, const data::SampleSpec& spec, const Sampling& sampling,
            std::vector<int32_t> prompt);
  // The next token; it is seen by the one after it, in a window that slides.
  int32_t next();

 private:
  Trainer& trainer_;
  int64_t vocabulary_;
  Sampling sampling_;
  std::vector<int32_t> ids_;  // what the model sees
  data::Batch batch_;
  uint64_t position_ = 0;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_GENERATE_H_
