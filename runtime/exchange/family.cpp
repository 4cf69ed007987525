// The table of families.
#include "runtime/exchange/family.h"

#include <algorithm>

#include "runtime/error.h"

namespace runtime::exchange {

const std::vector<Family>& families() {
  static const std::vector<Family>& all = *new std::vector<Family>{
      {"Llama (llama, mistral, qwen2, qwen3)",
       {"llama", "mistral", "qwen2", "qwen3"},
       read_decoder,
       recognise_decoder},
      {"GPT-2 (gpt2)", {"gpt2"}, read_gpt2, recognise_gpt2},
      {"BERT (bert)", {"bert"}, read_bert, recognise_bert},
  };
  return all;
}

namespace {

std::string all_families() {
  std::string text;
  for (const Family& family : families())
    text += (text.empty() ? "" : ", ") + std::string(family.documentation);
  return text;
}

}  // namespace

std::unique_ptr<Architecture> read_architecture(const JsonObject& config,
                                                const std::string& folder) {
  const std::string type = config.text("model_type");
  for (const Family& family : families()) {
    const auto& types = family.model_types;
    if (std::find(types.begin(), types.end(), type) != types.end())
      return family.read(config, folder);
  }
  config.fail("model_type", "one of the families that can be imported: " + all_families() +
                                "; write the layers of another model by hand (configs/README.md)");
}

std::unique_ptr<Architecture> recognise_architecture(const model::Model& model) {
  for (const Family& family : families()) {
    if (auto found = family.recognise(model)) return found;
  }
  throw ConfigurationError(
      "model.layers is none of the families that transformers loads: expected " + all_families() +
      ", as `runtime import` writes them; weights.safetensors can be read without a family");
}

}  // namespace runtime::exchange
