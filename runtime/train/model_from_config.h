// Converts [model] of the configuration to the layers of runtime/model.
#ifndef RUNTIME_TRAIN_MODEL_FROM_CONFIG_H_
#define RUNTIME_TRAIN_MODEL_FROM_CONFIG_H_

#include "runtime/config/config.h"
#include "runtime/model/layer.h"

namespace runtime::train {

// Throws ConfigurationError, which names the layer's place in the file, for a layer type that
// runtime/model does not have.
model::Model model_from_config(const config::Model& config);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_MODEL_FROM_CONFIG_H_
