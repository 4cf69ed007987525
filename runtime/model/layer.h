// The layers of a model as plain data. N is the number of samples, T of tokens, C of channels.
#ifndef RUNTIME_MODEL_LAYER_H_
#define RUNTIME_MODEL_LAYER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/config/layer.h"
#include "runtime/config/open_operation.h"
#include "runtime/graph/build.h"
#include "runtime/model/nested_layer.h"
#include "runtime/model/token_layer.h"

namespace runtime::model {

using config::Init;

struct Layer;

// Below, kShortName begins the names of layers that have no name: "conv1".

// Input [N, H, W, C]; output has `channels` channels.
struct Conv2d {
  static constexpr const char* kShortName = "conv";

  int64_t channels = 0, kernel_h = 1, kernel_w = 1;
  graph::Convolution convolution;
  bool same_padding = false;  // output size = ceil(input / stride); overrides `convolution.padding`
  bool bias = true;
};
// Applies to the last dimension: [N, D] or tokens [N, T, C].
struct Linear {
  static constexpr const char* kShortName = "fc";

  int64_t features = 0;
  bool bias = true;
  std::string tie = {};      // embedding whose table is the weight; empty: own weight
  bool file_in_out = false;  // the weight is [inputs, outputs] in files, as in GPT-2's
};
// Largest element or mean of each window of an image.
struct Pool2d {
  static constexpr const char* kShortName = "pool";

  bool max = false;
  graph::Pooling pooling;
};
// Average pooling whose output has the given size; its windows do not overlap.
struct AdaptiveAvgPool2d {
  static constexpr const char* kShortName = "adaptive_pool";

  int64_t height = 1, width = 1;  // of the output; they must divide those of the input
};
// Mean over an image or over tokens.
struct GlobalAvgPool {
  static constexpr const char* kShortName = "global_pool";

  std::string documents = {};  // as Attention::documents; tokens that are padding do not count
};
struct Flatten {
  static constexpr const char* kShortName = "flatten";
};
// [N, H, W, C] -> [N, H * W, C].
struct ImageToTokens {
  static constexpr const char* kShortName = "tokens";
};
struct Activation {
  static constexpr const char* kShortName = "activation";

  int32_t function = RT_ACTIVATION_RELU;  // RT_ACTIVATION_*
};
// Over the last dimension.
struct Softmax {
  static constexpr const char* kShortName = "softmax";
};
// Sets elements to 0 with this probability in training.
struct Dropout {
  static constexpr const char* kShortName = "dropout";

  double probability = 0.5;
};
// Normalises each channel over the batch; `momentum` is the weight of a new batch.
struct BatchNorm {
  static constexpr const char* kShortName = "bn";

  double momentum = 0.1, epsilon = 1e-5;
};
// Normalises the features of each sample, token or pixel.
struct LayerNorm {
  static constexpr const char* kShortName = "ln";

  double epsilon = 1e-5;
  bool bias = true;
};
// A named input of the samples, in place of the result of the layer before it.
struct Input {
  static constexpr const char* kShortName = "input";

  std::string input = {};           // its name in the data set
  std::vector<int64_t> shape = {};  // of one sample, as Model::input; empty: that of the features
  bool integers = false;            // int32, else the type of the model
};
// An operation that a plugin brings, or a formula of layer_types.cpp; its learned parameters are
// those that are declared with it.
struct Open {
  config::SharedOperation operation;
  config::AttributeValues attributes;
};
// One layer of any type, with the keys that all types have.
struct Layer {
  std::variant<Conv2d, Linear, Pool2d, AdaptiveAvgPool2d, GlobalAvgPool, Flatten, ImageToTokens,
               Activation, Softmax, Dropout, BatchNorm, LayerNorm, RmsNorm, Embedding,
               PositionEmbedding, SinusoidalPosition, Rotary, Attention, Input, FirstToken, Open,
               Block, Residual, Join, Gated, AuxiliaryHead>
      kind;
  std::string name;            // empty: the short name of the type and a number, "conv1"
  int32_t activation = 0;      // RT_ACTIVATION_*, applied to the output; 0: none
  int64_t repeat = 1;          // copies in sequence, named <name>.0, <name>.1, ...
  double l2 = 0;               // adds l2 * sum(w^2) of the layer's weight to the loss
  std::optional<Init> init;    // of the weight and the bias; empty: that of the model
  int64_t stage = -1;          // pipeline stage; -1: that of the enclosing layer, or any stage
  std::string shard = "auto";  // tensor parallelism of the weight: auto, none, column or row
};

// The lists of layers inside a layer, in the order in which they are built; none for most types.
std::vector<std::vector<Layer>*> lists_of(Layer& layer);
std::vector<const std::vector<Layer>*> lists_of(const Layer& layer);

// A model: its layers, and the shape of one sample as configurations give it ([channels, height,
// width], [features] or [length]).
struct Model {
  std::vector<int64_t> input;
  std::vector<Layer> layers;
  Init init;  // of every layer that has none of its own
};

}  // namespace runtime::model

#endif  // RUNTIME_MODEL_LAYER_H_
