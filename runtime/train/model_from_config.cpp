#include "runtime/train/model_from_config.h"

#include <functional>
#include <unordered_map>

#include "runtime/error.h"

namespace runtime::train {

namespace {

using model::Layer;

int64_t integer(const config::Layer& layer, const std::string& key, int64_t fallback) {
  const auto it = layer.integers.find(key);
  return it == layer.integers.end() ? fallback : it->second;
}

double number(const config::Layer& layer, const std::string& key, double fallback) {
  const auto it = layer.numbers.find(key);
  return it == layer.numbers.end() ? fallback : it->second;
}

std::string text(const config::Layer& layer, const std::string& key) {
  const auto it = layer.strings.find(key);
  return it == layer.strings.end() ? "" : it->second;
}

int32_t activation_function(const std::string& name) {
  static const std::unordered_map<std::string, int32_t> kFunctions = {
      {"relu", RT_ACTIVATION_RELU},
      {"gelu", RT_ACTIVATION_GELU},
      {"gelu_tanh", RT_ACTIVATION_GELU_TANH},
      {"tanh", RT_ACTIVATION_TANH},
      {"sigmoid", RT_ACTIVATION_SIGMOID}};
  const auto it = kFunctions.find(name);
  return it == kFunctions.end() ? 0 : it->second;
}

model::Init to_init(const config::Init& init) { return {init.kind, init.value}; }

std::vector<Layer> to_layers(const std::vector<config::Layer>& layers);

graph::Padding symmetric_padding(const config::Layer& l) {
  const int64_t h = integer(l, "padding_h", 0), w = integer(l, "padding_w", 0);
  return {h, h, w, w};
}

model::Conv2d conv2d(const config::Layer& l) {
  model::Conv2d c;
  c.channels = integer(l, "channels", 0);
  c.kernel_h = integer(l, "kernel_h", 1);
  c.kernel_w = integer(l, "kernel_w", 1);
  c.convolution = {integer(l, "stride_h", 1),   integer(l, "stride_w", 1),
                   symmetric_padding(l),        integer(l, "dilation_h", 1),
                   integer(l, "dilation_w", 1), integer(l, "groups", 1)};
  c.same_padding = text(l, "padding") == "same";
  c.bias = integer(l, "bias", 1) != 0;
  return c;
}

model::Pool2d pool2d(const config::Layer& l, bool max) {
  const int64_t h = integer(l, "kernel_h", 1), w = integer(l, "kernel_w", 1);
  model::Pool2d p;
  p.max = max;
  p.pooling = {h,
               w,
               integer(l, "stride_h", h),
               integer(l, "stride_w", w),
               symmetric_padding(l),
               integer(l, "count_include_pad", 1) != 0};
  return p;
}

using Kind = decltype(Layer::kind);

const std::unordered_map<std::string, std::function<Kind(const config::Layer&)>>& kinds() {
  static const std::unordered_map<std::string, std::function<Kind(const config::Layer&)>> kKinds = {
      {"conv2d", [](const auto& l) { return conv2d(l); }},
      {"linear",
       [](const auto& l) {
         return model::Linear{integer(l, "features", 0), integer(l, "bias", 1) != 0, text(l, "tie"),
                              text(l, "file_layout") == "in_out"};
       }},
      {"max_pool2d", [](const auto& l) { return pool2d(l, true); }},
      {"avg_pool2d", [](const auto& l) { return pool2d(l, false); }},
      {"adaptive_avg_pool2d",
       [](const auto& l) {
         return model::AdaptiveAvgPool2d{integer(l, "size_h", 1), integer(l, "size_w", 1)};
       }},
      {"image_to_tokens", [](const auto&) { return model::ImageToTokens{}; }},
      {"global_avg_pool", [](const auto&) { return model::GlobalAvgPool{}; }},
      {"flatten", [](const auto&) { return model::Flatten{}; }},
      {"softmax", [](const auto&) { return model::Softmax{}; }},
      {"dropout", [](const auto& l) { return model::Dropout{number(l, "probability", 0.5)}; }},
      {"batch_norm",
       [](const auto& l) {
         return model::BatchNorm{number(l, "momentum", 0.1), number(l, "eps", 1e-5)};
       }},
      {"layer_norm", [](const auto& l) { return model::LayerNorm{number(l, "eps", 1e-5)}; }},
      {"embedding",
       [](const auto& l) {
         return model::Embedding{integer(l, "vocabulary", 0), integer(l, "features", 0)};
       }},
      {"position_embedding",
       [](const auto& l) { return model::PositionEmbedding{integer(l, "length", 0)}; }},
      {"attention",
       [](const auto& l) {
         return model::Attention{integer(l, "heads", 1), integer(l, "causal", 0) != 0};
       }},
      {"block",
       [](const auto& l) {
         return model::Block{to_layers(l.layers), integer(l, "prefix", 1) != 0};
       }},
      {"residual",
       [](const auto& l) {
         return model::Residual{to_layers(l.layers), to_layers(l.shortcut),
                                integer(l, "prefix", 1) != 0};
       }},
  };
  return kKinds;
}

Layer to_layer(const config::Layer& l) {
  Layer layer;
  if (const int32_t function = activation_function(l.type); function != 0) {
    layer.kind = model::Activation{function};
  } else if (const auto it = kinds().find(l.type); it != kinds().end()) {
    layer.kind = it->second(l);
  } else {
    throw ConfigurationError(l.location.text() + ": layer type '" + l.type + "' is not supported");
  }
  layer.name = l.name;
  layer.activation = activation_function(l.activation);
  layer.repeat = l.repeat;
  layer.l2 = l.l2;
  if (l.init) layer.init = to_init(*l.init);
  layer.stage = integer(l, "stage", -1);
  if (l.strings.contains("shard")) layer.shard = text(l, "shard");
  return layer;
}

std::vector<Layer> to_layers(const std::vector<config::Layer>& layers) {
  std::vector<Layer> list;
  for (const config::Layer& l : layers) list.push_back(to_layer(l));
  return list;
}

// Calls f for every layer of type `Type`, also for those inside of other layers.
template <class Type, class F>
void for_each(std::vector<Layer>& layers, const F& f) {
  for (Layer& layer : layers) {
    if (auto* found = std::get_if<Type>(&layer.kind)) {
      f(*found);
    } else if (auto* block = std::get_if<model::Block>(&layer.kind)) {
      for_each<Type>(block->layers, f);
    } else if (auto* residual = std::get_if<model::Residual>(&layer.kind)) {
      for_each<Type>(residual->layers, f);
      for_each<Type>(residual->shortcut, f);
    }
  }
}

void set_outputs(std::vector<Layer>& layers, int64_t outputs) {
  Layer* last = &layers.back();
  while (auto* block = std::get_if<model::Block>(&last->kind)) last = &block->layers.back();
  auto* linear = std::get_if<model::Linear>(&last->kind);
  if (linear == nullptr) {
    throw ConfigurationError(
        "model.outputs: the last layer is not a linear one, whose features it would set; remove "
        "it, or put the linear layer last");
  }
  linear->features = outputs;
  if (linear->tie.empty()) return;
  for_each<model::Embedding>(layers, [&](model::Embedding& e) { e.vocabulary = outputs; });
}

}  // namespace

model::Model model_from_config(const config::Model& config) {
  model::Model model{config.input, to_layers(config.layers), to_init(config.init)};
  if (config.outputs > 0) set_outputs(model.layers, config.outputs);
  if (config.dropout >= 0) {
    for_each<model::Dropout>(model.layers,
                             [&](model::Dropout& d) { d.probability = config.dropout; });
  }
  return model;
}

}  // namespace runtime::train
