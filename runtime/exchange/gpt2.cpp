// Layers and configurations of the GPT-2 family.
#include "runtime/exchange/gpt2.h"

#include "runtime/exchange/functions.h"
#include "runtime/exchange/toml_layers.h"

namespace runtime::exchange {

namespace {

TomlLayer projection(const char* name, int64_t features) {
  return TomlLayer("linear")
      .text("name", name)
      .integer("features", features)
      .text("file_layout", "in_out");
}

}  // namespace

std::string Gpt2::layers() const {
  const auto norm = [&](const char* name) {
    return TomlLayer("layer_norm").text("name", name).number("eps", epsilon);
  };
  const auto part = [&](const char* name, const TomlLayer& before,
                        const std::vector<TomlLayer>& inner) {
    std::vector<TomlLayer> all = {before,
                                  TomlLayer("block").text("name", name).list("layers", inner)};
    add_dropout(all, residual_dropout);
    return TomlLayer("residual").flag("prefix", false).list("layers", all);
  };
  TomlLayer attention("attention");
  attention.integer("heads", heads).flag("causal", true);
  if (attention_dropout > 0) attention.number("dropout", attention_dropout);
  const std::vector<TomlLayer> block = {
      part("attn", norm("ln_1"),
           {projection("c_attn", 3 * width), attention, projection("c_proj", width)}),
      part("mlp", norm("ln_2"),
           {projection("c_fc", hidden).text("activation", function), projection("c_proj", width)})};
  std::vector<TomlLayer> all = {
      TomlLayer("embedding")
          .text("name", "wte")
          .integer("vocabulary", tokens)
          .integer("features", width),
      TomlLayer("position_embedding").text("name", "wpe").integer("length", places)};
  add_dropout(all, embedding_dropout);
  all.push_back(repeated("h", blocks, block));
  all.push_back(norm("ln_f"));
  all.push_back(TomlLayer("linear")
                    .text("name", "lm_head")
                    .integer("features", tokens)
                    .flag("bias", false)
                    .text("tie", "wte"));
  return to_toml(all);
}

// Older files have the causal mask of each block, and the head that is tied.
std::string Gpt2::name_of(const std::string& tensor) const {
  const std::string prefix = "transformer.";
  const std::string name = tensor.starts_with(prefix) ? tensor.substr(prefix.size()) : tensor;
  const bool computed = name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
  return computed || name == "lm_head.weight" ? "" : name;
}

nlohmann::ordered_json Gpt2::config() const {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", tokens},
          {"n_positions", places},
          {"n_embd", width},
          {"n_layer", blocks},
          {"n_head", heads},
          {"n_inner", hidden},
          {"activation_function", function == "gelu_tanh" ? "gelu_new" : their_function(function)},
          {"layer_norm_epsilon", epsilon},
          {"embd_pdrop", embedding_dropout},
          {"attn_pdrop", attention_dropout},
          {"resid_pdrop", residual_dropout},
          {"tie_word_embeddings", true}};
}

std::unique_ptr<Architecture> read_gpt2(const JsonObject& config, const std::string&) {
  auto g = std::make_unique<Gpt2>();
  g->tokens = config.integer("vocab_size", 1);
  g->places = config.integer("n_positions", 1, 1024);
  g->width = config.integer("n_embd", 1);
  g->blocks = config.integer("n_layer", 1);
  if (g->blocks > 1000) config.fail("n_layer", "at most 1000");
  g->heads = config.integer("n_head", 1);
  if (g->width % g->heads != 0)
    config.fail("n_head", "a divisor of n_embd, " + std::to_string(g->width));
  g->hidden = config.integer("n_inner", 1, 4 * g->width);
  g->epsilon = config.share("layer_norm_epsilon", 1e-5);
  g->function = read_function(config, "activation_function", "gelu_new",
                              {"gelu_tanh", "gelu", "relu", "tanh"});
  if (!config.flag("scale_attn_weights", true)) config.fail("scale_attn_weights", "true");
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
    if (config.flag(key, false)) config.fail(key, "false");
  }
  if (!config.flag("tie_word_embeddings", true)) config.fail("tie_word_embeddings", "true");
  g->embedding_dropout = config.probability("embd_pdrop", 0.1);
  g->attention_dropout = config.probability("attn_pdrop", 0.1);
  g->residual_dropout = config.probability("resid_pdrop", 0.1);
  return g;
}

}  // namespace runtime::exchange
