// The types of layers that configurations may use, and the model that a configuration describes.
#ifndef RUNTIME_MODEL_LAYER_TYPES_H_
#define RUNTIME_MODEL_LAYER_TYPES_H_

#include "runtime/config/config.h"
#include "runtime/config/schema.h"
#include "runtime/model/layer.h"

namespace runtime::model {

// All types, in the order of the documentation. The table is constant and lives as long as the
// program; any thread may read it.
const config::LayerTypes& layer_types();

// The types of layers of plugins: the keys of their attributes and those that all layers have.
// Throws DeviceError, which names the plugin and the operation, for an attribute with the name of
// one of these.
config::LayerTypes open_layer_types(const std::vector<config::SharedOperation>& operations);

// Makes the model of a configuration that was loaded with layer_types(): its layers, with `outputs`
// and `dropout` applied. Throws ConfigurationError if model.outputs does not fit the last layer.
Model model_from_config(const config::Model& config);

}  // namespace runtime::model

#endif  // RUNTIME_MODEL_LAYER_TYPES_H_
