// Layers and configurations of the Llama family.
#include "runtime/exchange/decoder.h"

#include <algorithm>
#include <map>

#include "runtime/exchange/functions.h"

namespace runtime::exchange {

namespace {

constexpr int64_t kMostLayers = 1000;

// The window of each layer. Two ways to say it are in use: `layer_types`, and by family.
std::vector<int64_t> windows_of(const JsonObject& config, const std::string& type, int64_t layers) {
  std::vector<int64_t> windows(static_cast<size_t>(layers), 0);
  const bool asked = type == "mistral" || config.flag("use_sliding_window", false);
  const int64_t window = asked ? config.integer("sliding_window", 1, 0) : 0;
  if (window == 0) return windows;
  if (config.has("layer_types")) {
    const std::vector<std::string> types = config.texts("layer_types");
    if (types.size() != windows.size())
      config.fail("layer_types", "one for each of the " + std::to_string(layers) + " layers");
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] != "full_attention" && types[i] != "sliding_attention")
        config.fail("layer_types", "full_attention or sliding_attention");
      windows[i] = types[i] == "sliding_attention" ? window : 0;
    }
    return windows;
  }
  const int64_t first = type == "mistral" ? 0 : config.integer("max_window_layers", 0, layers);
  for (int64_t i = first; i < layers; ++i) windows[static_cast<size_t>(i)] = window;
  return windows;
}

}  // namespace

TomlLayer Decoder::linear(const std::string& name, int64_t features, bool bias) const {
  TomlLayer layer("linear");
  layer.text("name", name).integer("features", features);
  if (!bias) layer.flag("bias", false);
  return layer;
}

TomlLayer Decoder::norm(const std::string& name) const {
  return TomlLayer("rms_norm").text("name", name).number("eps", epsilon);
}

TomlLayer Decoder::rotary(int64_t of_heads) const {
  const model::Rotations& r = rotations;
  TomlLayer layer("rotary");
  layer.integer("heads", of_heads).number("base", r.base);
  if (r.columns != 0) layer.integer("columns", r.columns);
  switch (r.scaling) {
    case model::RotationScaling::kNone:
      return layer;
    case model::RotationScaling::kLinear:
      return layer.text("scaling", "linear").number("factor", r.factor);
    case model::RotationScaling::kLlama3:
      layer.text("scaling", "llama3");
      break;
    case model::RotationScaling::kYarn:
      layer.text("scaling", "yarn");
      if (r.attention != 0) layer.number("attention", r.attention);
      break;
  }
  layer.number("factor", r.factor).integer("original_length", r.original_length);
  return layer.number("low", r.low).number("high", r.high);
}

std::vector<TomlLayer> Decoder::projection(const std::string& which, int64_t of_heads) const {
  std::vector<TomlLayer> layers = {
      linear("self_attn." + which + "_proj", of_heads * head_width, query_bias)};
  if (which == "v") return layers;
  if (head_norms) layers.push_back(norm("self_attn." + which + "_norm").integer("heads", of_heads));
  layers.push_back(rotary(of_heads));
  return layers;
}

std::vector<TomlLayer> Decoder::block(int64_t window) const {
  TomlLayer attention("attention");
  attention.flag("prefix", false).integer("heads", heads).integer("key_heads", key_heads);
  attention.flag("causal", true);
  if (window > 0) attention.integer("window", window);
  if (dropout > 0) attention.number("dropout", dropout);
  attention.list("query", projection("q", heads)).list("key", projection("k", key_heads));
  attention.list("value", projection("v", key_heads));
  TomlLayer gated("gated");
  gated.flag("prefix", false).text("function", function);
  gated.list("gate", {linear("mlp.gate_proj", hidden, mlp_bias)});
  gated.list("up", {linear("mlp.up_proj", hidden, mlp_bias)});
  const auto residual = [](const std::vector<TomlLayer>& inner) {
    return TomlLayer("residual").flag("prefix", false).list("layers", inner);
  };
  return {residual(
              {norm("input_layernorm"), attention, linear("self_attn.o_proj", width, output_bias)}),
          residual(
              {norm("post_attention_layernorm"), gated, linear("mlp.down_proj", width, mlp_bias)})};
}

// Blocks that are alike are one layer that is repeated; with windows that differ, each has a name
// of its own.
std::string Decoder::layers() const {
  const std::string name = "model.embed_tokens", blocks = "model.layers";
  std::vector<TomlLayer> all = {TomlLayer("embedding")
                                    .text("name", name)
                                    .integer("vocabulary", tokens)
                                    .integer("features", width)};
  const auto count = static_cast<int64_t>(windows.size());
  const bool alike =
      std::all_of(windows.begin(), windows.end(), [&](int64_t w) { return w == windows.front(); });
  if (alike) {
    all.push_back(repeated(blocks, count, block(windows.front())));
  } else {
    for (int64_t i = 0; i < count; ++i) {
      all.push_back(TomlLayer("block")
                        .text("name", blocks + "." + std::to_string(i))
                        .list("layers", block(windows[static_cast<size_t>(i)])));
    }
  }
  all.push_back(norm("model.norm"));
  TomlLayer head = linear("lm_head", tokens, false);
  if (tied) head.text("tie", name);
  all.push_back(head);
  return to_toml(all);
}

// Files of the model without its head have no "model." before the names.
std::string Decoder::name_of(const std::string& tensor) const {
  if (tensor.ends_with(".rotary_emb.inv_freq")) return "";
  if (tensor.starts_with("model.")) return tensor;
  if (tensor == "lm_head.weight") return tied ? "" : tensor;
  return "model." + tensor;
}

nlohmann::ordered_json Decoder::config() const {
  const std::map<std::string, std::string> architectures = {{"llama", "LlamaForCausalLM"},
                                                            {"mistral", "MistralForCausalLM"},
                                                            {"qwen2", "Qwen2ForCausalLM"},
                                                            {"qwen3", "Qwen3ForCausalLM"}};
  nlohmann::ordered_json json = {{"architectures", {architectures.at(model_type)}},
                                 {"model_type", model_type},
                                 {"vocab_size", tokens},
                                 {"hidden_size", width},
                                 {"intermediate_size", hidden},
                                 {"num_hidden_layers", windows.size()},
                                 {"num_attention_heads", heads},
                                 {"num_key_value_heads", key_heads},
                                 {"head_dim", head_width},
                                 {"hidden_act", their_function(function)},
                                 {"max_position_embeddings", places},
                                 {"rms_norm_eps", epsilon},
                                 {"rope_theta", rotations.base},
                                 {"tie_word_embeddings", tied},
                                 {"attention_dropout", dropout}};
  if (const auto scaling = rope_scaling(rotations); !scaling.is_null())
    json["rope_scaling"] = scaling;
  if (model_type == "llama") json["attention_bias"] = query_bias, json["mlp_bias"] = mlp_bias;
  if (model_type == "qwen3") json["attention_bias"] = query_bias;
  const int64_t window = *std::max_element(windows.begin(), windows.end());
  if (model_type == "mistral" || window > 0) json["sliding_window"] = nullptr;
  if (window > 0) json["sliding_window"] = window;
  if (window > 0 && model_type != "mistral") {
    json["use_sliding_window"] = true;
    json["layer_types"] = nlohmann::json::array();
    for (const int64_t w : windows)
      json["layer_types"].push_back(w > 0 ? "sliding_attention" : "full_attention");
  }
  return json;
}

std::unique_ptr<Architecture> read_decoder(const JsonObject& config, const std::string&) {
  auto d = std::make_unique<Decoder>();
  d->model_type = config.text("model_type");
  d->tokens = config.integer("vocab_size", 1);
  d->width = config.integer("hidden_size", 1);
  d->hidden = config.integer("intermediate_size", 1);
  d->places = config.integer("max_position_embeddings", 1, 2048);
  d->heads = config.integer("num_attention_heads", 1);
  d->key_heads = config.integer("num_key_value_heads", 1, d->heads);
  if (d->heads % d->key_heads != 0)
    config.fail("num_key_value_heads",
                "a divisor of num_attention_heads, " + std::to_string(d->heads));
  const int64_t usual = d->model_type == "qwen3" ? 128 : d->width / d->heads;
  if (!config.has("head_dim") && d->model_type != "qwen3" && d->width % d->heads != 0)
    config.fail("hidden_size", "a multiple of num_attention_heads, " + std::to_string(d->heads));
  d->head_width = config.integer("head_dim", 2, usual);
  d->epsilon = config.share("rms_norm_eps", 1e-6);
  d->function = read_function(config, "hidden_act", "silu", {"silu", "gelu", "gelu_tanh", "relu"});
  const bool bias = config.flag("attention_bias", false);
  d->query_bias = bias || d->model_type == "qwen2";
  d->output_bias = bias;
  d->mlp_bias = config.flag("mlp_bias", false);
  d->head_norms = d->model_type == "qwen3";
  d->tied = config.flag("tie_word_embeddings", false);
  d->dropout = config.probability("attention_dropout", 0);
  const int64_t layers = config.integer("num_hidden_layers", 1);
  if (layers > kMostLayers)
    config.fail("num_hidden_layers", "at most " + std::to_string(kMostLayers));
  d->windows = windows_of(config, d->model_type, layers);
  d->rotations = read_rotations(config, d->head_width, d->places);
  return d;
}

}  // namespace runtime::exchange
