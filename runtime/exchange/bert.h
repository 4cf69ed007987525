// The BERT family: encoders whose tokens see all of their text.
#ifndef RUNTIME_EXCHANGE_BERT_H_
#define RUNTIME_EXCHANGE_BERT_H_

#include "runtime/exchange/family.h"
#include "runtime/exchange/toml_layers.h"

namespace runtime::exchange {

// One model of the family. Sizes are numbers of features unless said otherwise.
struct Bert : Architecture {
  Task kind = Task::kEmbedding;
  int64_t segments = 2;           // types of tokens
  int64_t width = 0, hidden = 0;  // of a token, and inside of a perceptron
  int64_t blocks = 1, heads = 1;
  double epsilon = 1e-12;
  std::string function = "gelu";
  double hidden_dropout = 0, attention_dropout = 0, classifier_dropout = 0;
  bool tied = true;          // kMaskedToken: the head is the embedding
  int64_t classes = 0;       // kClass
  bool first_token = false;  // kEmbedding: the vector is that of the first token, else the mean
  bool normalised = false;   // kEmbedding: the vector has the length 1

  std::string layers() const override;
  nlohmann::ordered_json config() const override;
  Task task() const override { return kind; }
  std::map<std::string, std::string> files() const override;
  int64_t outputs() const override;
  std::string name_of(const std::string& tensor) const override;
  std::string tensor_of(const std::string& parameter) const override;

 private:
  TomlLayer norm(const std::string& name) const;
  std::vector<TomlLayer> embeddings() const;
  std::vector<TomlLayer> block() const;
  std::vector<TomlLayer> head() const;
};

}  // namespace runtime::exchange

#endif  // RUNTIME_EXCHANGE_BERT_H_
