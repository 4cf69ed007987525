// Looks for a final sigmoid or softmax before a loss that takes logits.
#include "runtime/config/advice.h"

#include "runtime/config/choices.h"

namespace runtime::config {

namespace {

// The function that the layer ends with: its activation, the type of a layer that is one, or what
// the last layer of a block ends with; "" for none.
std::string last_function(const Layer& layer) {
  const Value* const activation = layer.find("activation");
  if (activation != nullptr && !activation->string.empty()) return activation->string;
  if (layer.type->name == "sigmoid" || layer.type->name == "softmax") return layer.type->name;
  const auto inside = layer.lists.find("layers");
  const bool block = layer.type->name == "block" && inside != layer.lists.end();
  return block && !inside->second.empty() ? last_function(inside->second.back()) : "";
}

}  // namespace

std::vector<std::string> advice(const Config& config) {
  const Loss& loss = loss_of(config.training.loss, !is_regression(config.dataset));
  if (config.model.layers.empty() || !loss.of_logits) return {};
  const Layer& last = config.model.layers.back();
  const std::string function = last_function(last);
  if (function != "sigmoid" && function != "softmax") return {};
  return {last.position.text() + ": the last layer of the model ends with \"" + function +
          "\", but the loss " + loss.name +
          " expects logits and computes probabilities from them itself, so that the model learns "
          "slowly and its loss stays far from 0; remove the " +
          function + " (the predicted class is the same without it)"};
}

}  // namespace runtime::config
