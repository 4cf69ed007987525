// The layers that a model is made of, as plain data.
#ifndef RUNTIME_MODEL_LAYER_H_
#define RUNTIME_MODEL_LAYER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/graph/build.h"

namespace runtime::model {

// How initial values are drawn; see configs/README.md for the kinds.
struct Init {
  std::string kind = "default";
  double value = 0;
};

struct Layer;

struct Conv2d {
  int64_t channels = 0, kernel_h = 1, kernel_w = 1;
  graph::Convolution convolution;
  bool same_padding = false;  // output size = ceil(input / stride); overrides convolution.padding
  bool bias = true;
};
struct Linear {
  int64_t features = 0;
  bool bias = true;
  std::string tie = {};      // name of the embedding whose table is the weight; empty: its own
  bool file_in_out = false;  // the weight is [inputs, outputs] in files
};
struct Pool2d {
  bool max = false;
  graph::Pooling pooling;
};
struct AdaptiveAvgPool2d {
  int64_t height = 1, width = 1;  // divisors of the image's
};
struct GlobalAvgPool {};  // of an image or of tokens
struct Flatten {};
struct ImageToTokens {};
struct Activation {
  int32_t function = RT_ACTIVATION_RELU;
};
struct Softmax {};
struct Dropout {
  double probability = 0.5;
};
struct BatchNorm {
  double momentum = 0.1, epsilon = 1e-5;
};
struct LayerNorm {
  double epsilon = 1e-5;
};
struct Embedding {
  int64_t vocabulary = 0, features = 0;
};
// Adds the first rows of a learned table to the tokens; length 0: as many rows as tokens.
struct PositionEmbedding {
  int64_t length = 0;
};
// Queries, keys and values side by side [N, T, 3C] -> [N, T, C].
struct Attention {
  int64_t heads = 1;
  bool causal = false;
};
// Layers in sequence. `prefix`, here and below: the layer's name goes before those inside.
struct Block {
  std::vector<Layer> layers;
  bool prefix = true;
};
// y = layers(x) + shortcut(x), then the layer's activation; an empty shortcut is the identity.
struct Residual {
  std::vector<Layer> layers, shortcut;
  bool prefix = true;
};

struct Layer {
  std::variant<Conv2d, Linear, Pool2d, AdaptiveAvgPool2d, GlobalAvgPool, Flatten, ImageToTokens,
               Activation, Softmax, Dropout, BatchNorm, LayerNorm, Embedding, PositionEmbedding,
               Attention, Block, Residual>
      kind;
  std::string name;            // empty: the type's short name and a number, "conv1"
  int32_t activation = 0;      // RT_ACTIVATION_*, applied to the layer's output; 0: none
  int64_t repeat = 1;          // copies in sequence, named <name>.0, <name>.1, ...
  double l2 = 0;               // adds l2 * sum(w^2) of the layer's weight to the loss
  std::optional<Init> init;    // of the layer's weight and bias
  int64_t stage = -1;          // of the pipeline; -1: that of the layer around it, or any
  std::string shard = "auto";  // of the weight, tensor parallelism: auto, none, column or row
};

// A model: the shape of one sample as people write it ([channels, height, width], [features] or
// [length]) and layers.
struct Model {
  std::vector<int64_t> input;
  std::vector<Layer> layers;
  Init init;
};

}  // namespace runtime::model

#endif  // RUNTIME_MODEL_LAYER_H_
