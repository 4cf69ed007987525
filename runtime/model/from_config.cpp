// Builds the layers of a configured model, with outputs and dropout replaced where it says so.
#include "runtime/error.h"
#include "runtime/model/declare_layer.h"
#include "runtime/model/layer_types.h"

namespace runtime::model {

namespace {

// Calls f(layer, kind) for every layer of type `Type`, also for those inside of other layers.
template <class Type, class F>
void for_each(std::vector<Layer>& layers, const F& f) {
  for (Layer& layer : layers) {
    if (auto* found = std::get_if<Type>(&layer.kind)) f(layer, *found);
    for (std::vector<Layer>* inside : lists_of(layer)) for_each<Type>(*inside, f);
  }
}

void set_outputs(std::vector<Layer>& layers, int64_t outputs) {
  Layer* last = &layers.back();
  while (auto* block = std::get_if<Block>(&last->kind)) last = &block->layers.back();
  auto* linear = std::get_if<Linear>(&last->kind);
  if (linear == nullptr) {
    throw ConfigurationError(
        "model.outputs: the last layer is not a linear one, whose features it would set; remove "
        "it, or put the linear layer last");
  }
  linear->features = outputs;
  if (linear->tie.empty()) return;
  for_each<Embedding>(layers, [&](const Layer& layer, Embedding& e) {
    const std::string last = linear->tie.substr(linear->tie.rfind('.') + 1);
    const bool by_number = layer.name.empty() && last.starts_with(Embedding::kShortName);
    if (by_number || linear->tie == layer.name || linear->tie.ends_with("." + layer.name))
      e.vocabulary = outputs;
  });
}

}  // namespace

Model model_from_config(const config::Model& config) {
  Model model{config.input, to_layers(config.layers), config.init};
  if (config.outputs > 0) set_outputs(model.layers, config.outputs);
  if (config.dropout >= 0) {
    for_each<Dropout>(model.layers,
                      [&](const Layer&, Dropout& d) { d.probability = config.dropout; });
    for_each<Attention>(model.layers, [&](const Layer&, Attention& a) {
      if (a.options.probability > 0) a.options.probability = config.dropout;
    });
  }
  return model;
}

}  // namespace runtime::model
