// The layers that contain other layers.
#ifndef RUNTIME_MODEL_NESTED_LAYER_H_
#define RUNTIME_MODEL_NESTED_LAYER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/graph/build.h"

namespace runtime::model {

struct Layer;

// Below, kShortName begins the names of layers that have no name: "block1". If `prefix` is true,
// the names inside begin with the name of the layer.

// Layers in sequence.
struct Block {
  static constexpr const char* kShortName = "block";

  std::vector<Layer> layers;
  bool prefix = true;
};
// y = layers(x) + shortcut(x), followed by the activation of this layer. An empty shortcut is the
// identity.
struct Residual {
  static constexpr const char* kShortName = "residual";

  std::vector<Layer> layers, shortcut;
  bool prefix = true;
};

// How the results of two branches become one.
enum class JoinBy { kAdd, kMultiply, kConcat };
// y = layers(x) joined with other(x), which is x itself if `other` is empty.
struct Join {
  static constexpr const char* kShortName = "join";

  std::vector<Layer> layers, other;
  JoinBy by = JoinBy::kAdd;
  bool prefix = true;
};

// y = function(gate(x)) * up(x): SwiGLU and its relatives.
struct Gated {
  static constexpr const char* kShortName = "gated";

  std::vector<Layer> gate, up;
  int32_t function = RT_ACTIVATION_SILU;
  bool prefix = true;
};
// A branch whose result is compared in training with a named input of the samples: a second label,
// whose weighted loss is added to that of the model. x itself goes on.
// Equivalent to: the auxiliary classifiers of GoogLeNet.
struct AuxiliaryHead {
  static constexpr const char* kShortName = "aux";

  std::vector<Layer> layers;
  std::string target = {};             // the named input
  std::string loss = "cross_entropy";  // a row of config::losses()
  double loss_weight = 1;
  bool prefix = true;
};

}  // namespace runtime::model

#endif  // RUNTIME_MODEL_NESTED_LAYER_H_
