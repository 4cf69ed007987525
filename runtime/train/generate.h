// Text from a language model, one token after the other.
#ifndef RUNTIME_TRAIN_GENERATE_H_
#define RUNTIME_TRAIN_GENERATE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/train/rank/step_programs.h"

namespace runtime::train {

// How the next token is drawn from the logits.
struct Sampling {
  double temperature = 0.8;  // divides the logits; 0: always the most likely token
  int64_t top_k = 200;       // draws among so many of the most likely tokens; 0: among all
  // Draws among the fewest of the most likely tokens whose probabilities, among those that top_k
  // leaves, sum to at least this. Equivalent to: top_p of transformers.
  double top_p = 1;
  uint64_t seed = 42;
};

// Draws token number `position` of a text. The same arguments give the same token. Throws
// NumericError if a logit is not finite.
int32_t sample_token(std::span<const double> logits, const Sampling& sampling, uint64_t position);

// Generates a text with the parameters that the programs have. Used by one thread; the programs
// must outlive it and have samples that are windows of spec().shape[0] tokens. They have one cache,
// and it belongs to the parameters: one generator at a time, and no training in between.
//
// As long as the window is not full, a token costs the forward pass of one token, if the model
// allows this (model::can_extend): the device keeps the keys and values of the tokens before. In a
// full window every token moves and gets other keys and values, so each new one costs the forward
// pass of a window. Equivalent to: generate() of Hugging Face's transformers with use_cache.
class Generator {
 public:
  // `prompt` has at least one id. Of a prompt longer than a window, the model sees the end. Without
  // `cached`, every token costs the forward pass of a window; the results differ by rounding.
  Generator(StepPrograms& programs, const Sampling& sampling, std::vector<int32_t> prompt,
            bool cached = true);
  // Generates a token and appends it to the sliding window from which the next one is generated.
  int32_t next();
  // The logits from which the last token was drawn.
  const std::vector<double>& logits() const { return logits_; }

 private:
  void run_window();
  void run_token();
  // The numbers of KeyValueCache::Mask for the token behind those that are cached.
  std::vector<double> mask_of(int64_t window) const;
  StepProgram& token_program();
  void keep(size_t i, const void* from, size_t tokens);
  void write(const StepProgram& p, graph::ValueId id, const std::vector<double>& numbers);
  void read_logits(const StepProgram& p, size_t row);

  StepPrograms& programs_;
  Sampling sampling_;
  std::vector<int32_t> ids_;  // tokens that the model sees
  data::Batch batch_;
  const bool extends_;
  size_t cached_ = 0;  // so many of ids_ have their keys and values in the cache
  std::vector<double> logits_;
  uint64_t position_ = 0;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_GENERATE_H_
