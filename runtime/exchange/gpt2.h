// The GPT-2 family.
#ifndef RUNTIME_EXCHANGE_GPT2_H_
#define RUNTIME_EXCHANGE_GPT2_H_

#include "runtime/exchange/family.h"

namespace runtime::exchange {

// One model of the family. Sizes are numbers of features unless said otherwise.
struct Gpt2 : Architecture {
  int64_t width = 0, hidden = 0;  // of a token, and inside of a perceptron
  int64_t blocks = 1, heads = 1;
  double epsilon = 1e-5;
  std::string function = "gelu_tanh";
  double embedding_dropout = 0, attention_dropout = 0, residual_dropout = 0;

  std::string layers() const override;
  nlohmann::ordered_json config() const override;
  std::string name_of(const std::string& tensor) const override;
  std::string tensor_of(const std::string& parameter) const override {
    return "transformer." + parameter;
  }
};

}  // namespace runtime::exchange

#endif  // RUNTIME_EXCHANGE_GPT2_H_
