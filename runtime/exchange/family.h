// The families of models that can be exchanged with Hugging Face's transformers, one row for each.
#ifndef RUNTIME_EXCHANGE_FAMILY_H_
#define RUNTIME_EXCHANGE_FAMILY_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/exchange/hf_json.h"
#include "runtime/model/layer.h"

namespace runtime::exchange {

// One model of a family, read from either side. The family translates it with these functions.
class Architecture {
 public:
  virtual ~Architecture() = default;
  // The value of model.layers as TOML. Parameters have the names of `name_of`.
  virtual std::string layers() const = 0;
  // config.json as transformers reads it.
  virtual nlohmann::ordered_json config() const = 0;
  // Tokens of the vocabulary, and of the longest text.
  virtual int64_t vocabulary() const = 0;
  virtual int64_t length() const = 0;
  // The parameter that a tensor of the files is; "" for one that the model computes itself.
  virtual std::string name_of(const std::string& tensor) const = 0;
  // The tensor of the files that a parameter is.
  virtual std::string tensor_of(const std::string& parameter) const { return parameter; }
};

// A family: how its models are read from either side. A function returns null for a model of
// another family, and throws DataError for one that it knows and cannot express.
struct Family {
  std::string_view documentation;             // model types, for messages
  std::vector<std::string_view> model_types;  // of config.json
  std::unique_ptr<Architecture> (*read)(const JsonObject& config);
  std::unique_ptr<Architecture> (*recognise)(const model::Model& model);
};

const std::vector<Family>& families();

// The architecture of a configuration. Throws DataError that names the model type and the families.
std::unique_ptr<Architecture> read_architecture(const JsonObject& config);

// The architecture of a model. Throws ConfigurationError if it belongs to no family.
std::unique_ptr<Architecture> recognise_architecture(const model::Model& model);

// The functions of the rows.
std::unique_ptr<Architecture> read_decoder(const JsonObject& config);        // decoder.cpp
std::unique_ptr<Architecture> recognise_decoder(const model::Model& model);  // decoder.cpp
std::unique_ptr<Architecture> read_gpt2(const JsonObject& config);           // gpt2.cpp
std::unique_ptr<Architecture> recognise_gpt2(const model::Model& model);     // gpt2.cpp

}  // namespace runtime::exchange

#endif  // RUNTIME_EXCHANGE_FAMILY_H_
