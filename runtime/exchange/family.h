// The families of models that can be exchanged with Hugging Face's transformers, one row for each.
#ifndef RUNTIME_EXCHANGE_FAMILY_H_
#define RUNTIME_EXCHANGE_FAMILY_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/exchange/hf_json.h"
#include "runtime/model/layer.h"

namespace runtime::exchange {

// The task that a model was trained for.
enum class Task {
  kNextToken,    // a language model
  kMaskedToken,  // a model that fills in tokens of a text
  kClass,        // the class of a text, or of two
  kEmbedding,    // a vector for a text
};

// One model of a family, read from either side. The family translates it with these functions.
class Architecture {
 public:
  virtual ~Architecture() = default;
  // The value of model.layers as TOML. Parameters have the names of `name_of`.
  virtual std::string layers() const = 0;
  // config.json as transformers reads it.
  virtual nlohmann::ordered_json config() const = 0;
  // The task decides which samples the model reads, and what it computes from them.
  virtual Task task() const { return Task::kNextToken; }
  // Further files of the folder, by name.
  virtual std::map<std::string, std::string> files() const { return {}; }
  // Classes, or numbers of a vector.
  virtual int64_t outputs() const { return tokens; }
  // The parameter that a tensor of the files is; "" for one that the model computes itself.
  virtual std::string name_of(const std::string& tensor) const = 0;
  // The tensor of the files that a parameter is.
  virtual std::string tensor_of(const std::string& parameter) const { return parameter; }

  int64_t tokens = 0, places = 0;  // of the vocabulary, and of the longest text
};

// A family: how its models are read from either side. A function returns null for a model of
// another family, and throws DataError for one that it knows and cannot express.
struct Family {
  std::string_view documentation;             // model types, for messages
  std::vector<std::string_view> model_types;  // of config.json
  std::unique_ptr<Architecture> (*read)(const JsonObject& config, const std::string& folder);
  std::unique_ptr<Architecture> (*recognise)(const model::Model& model);
};

const std::vector<Family>& families();

// The architecture of the model in a folder, with its config.json. Throws DataError that names the
// model type and the families.
std::unique_ptr<Architecture> read_architecture(const JsonObject& config,
                                                const std::string& folder);

// The architecture of a model. Throws ConfigurationError if it belongs to no family.
std::unique_ptr<Architecture> recognise_architecture(const model::Model& model);

// The functions of the rows.
std::unique_ptr<Architecture> read_decoder(const JsonObject& config, const std::string& folder);
std::unique_ptr<Architecture> recognise_decoder(const model::Model& model);
std::unique_ptr<Architecture> read_gpt2(const JsonObject& config, const std::string& folder);
std::unique_ptr<Architecture> recognise_gpt2(const model::Model& model);
std::unique_ptr<Architecture> read_bert(const JsonObject& config, const std::string& folder);
std::unique_ptr<Architecture> recognise_bert(const model::Model& model);

}  // namespace runtime::exchange

#endif  // RUNTIME_EXCHANGE_FAMILY_H_
