// A tokenizer of components: normalizer, pre-tokenizer, model, post-processor and decoder.
#ifndef RUNTIME_TOKENIZER_PIPELINE_H_
#define RUNTIME_TOKENIZER_PIPELINE_H_

#include "runtime/tokenizer/added_tokens.h"
#include "runtime/tokenizer/decoder.h"
#include "runtime/tokenizer/model.h"
#include "runtime/tokenizer/normalizer.h"
#include "runtime/tokenizer/post_processor.h"
#include "runtime/tokenizer/pre_tokenizer.h"
#include "runtime/tokenizer/tokenizer.h"

namespace runtime::tokenizer {

struct Components {
  ModelPointer model;
  Normalizer normalizer = nullptr;
  AddedTokens added = {};
  PreTokenizer pre_tokenizer = nullptr;
  PostProcessor post_processor = {};
  Decoder decoder = nullptr;
};

TokenizerPointer make_pipeline(Components components);

}  // namespace runtime::tokenizer

#endif  // RUNTIME_TOKENIZER_PIPELINE_H_
