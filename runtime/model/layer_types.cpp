// The table of layer types: keys, ranges and documentation of each, and how it becomes a layer.
#include "runtime/model/layer_types.h"

#include <algorithm>

#include "runtime/config/choices.h"
#include "runtime/error.h"
#include "runtime/graph/activations.h"
#include "runtime/graph/scanner.h"
#include "runtime/model/declare_layer.h"
#include "runtime/row_of.h"

namespace runtime::model {

namespace {

using config::Range;
using config::Type;
using Setting = config::Value;

constexpr double kMaxWindow = 4096;  // kernel, stride, padding, dilation

const Range kWindow = {.minimum = 1, .maximum = kMaxWindow};
const Range kPadding = {.minimum = 0, .maximum = kMaxWindow};

// ---- keys of several types

LayerKey<Layer> activation() {
  return custom<Layer>({.name = "activation",
                        .default_text = "\"\"",
                        .choices = {"", "relu", "gelu", "gelu_tanh", "tanh", "sigmoid"},
                        .documentation = "applied to the result",
                        .brief = true},
                       [](const Setting& v, Layer& layer) {
                         layer.activation = graph::activation_function(v.string);
                       });
}

LayerKey<Layer> init() {
  return custom<Layer>({.name = "init",
                        .type = Type::kInit,
                        .documentation = "initial weights, instead of model.init"},
                       [](const Setting& v, Layer& layer) { layer.init = config::read_init(v); });
}

LayerKey<Layer> stage() {
  return custom<Layer>(
      {.name = "stage",
       .type = Type::kInteger,
       .range = {.minimum = 0, .maximum = 65535},
       .documentation = "pipeline stage that computes it, counted from 0; without it, that of "
                        "the layer around it, else stages are balanced by cost"},
      [](const Setting& v, Layer& layer) { layer.stage = v.integer; });
}

// ---- rules about two keys of a layer

bool is_given(const config::Layer& layer, const std::string& key) {
  const Setting* value = layer.find(key);
  const config::Position& of_layer = layer.position;
  return value != nullptr &&
         (value->position.line != of_layer.line || value->position.column != of_layer.column);
}

// A tied layer has no weight of its own that these keys could describe.
void check_tie(const config::Layer& layer, const std::string& path) {
  if (layer.find("tie")->string.empty()) return;
  for (const char* key : {"init", "l2", "file_layout", "shard"}) {
    if (!is_given(layer, key)) continue;
    config::fail(position(layer, key), path + "." + key,
                 "describes a weight, but a tied layer uses the weight of the embedding; remove "
                 "it, or remove tie");
  }
}

void check_groups(const config::Layer& layer, const std::string& path) {
  const int64_t channels = layer.find("channels")->integer, groups = layer.find("groups")->integer;
  if (channels % groups == 0) return;
  config::fail(position(layer, "groups"), path + ".groups",
               "wrong value: got " + std::to_string(groups) + ", expected a divisor of channels, " +
                   std::to_string(channels));
}

void check_pool_padding(const config::Layer& layer, const std::string& path) {
  int64_t padding[2], kernel[2];
  assign(*layer.find("padding"), Pair{&padding[0], &padding[1]});
  assign(*layer.find("kernel"), Pair{&kernel[0], &kernel[1]});
  for (const int side : {0, 1}) {
    if (padding[side] < kernel[side]) continue;
    config::fail(position(layer, "padding"), path + ".padding",
                 "out of range: got " + std::to_string(padding[side]) +
                     ", expected less than the kernel, " + std::to_string(kernel[side]));
  }
}

// ---- types

void set_padding(const Setting& value, graph::Padding& padding) {
  assign(value, Pair{&padding.top, &padding.left});
  padding.bottom = padding.top;
  padding.right = padding.left;
}

DeclaredLayer conv2d() {
  using graph::Convolution;
  const auto padding = custom<Conv2d>(
      {.name = "padding",
       .type = Type::kPadding,
       .default_text = "0",
       .range = kPadding,
       .documentation = "zeros on each side, an integer or [h, w], or \"same\" (size / stride, "
                        "rounded up)"},
      [](const Setting& v, Conv2d& c) {
        c.same_padding = v.is(Setting::Kind::kString);
        if (!c.same_padding) set_padding(v, c.convolution.padding);
      });
  const auto groups = key("groups", &Conv2d::convolution, &Convolution::groups,
                          "divides the channels of input and output")
                          .in(kWidth);
  return checked(
      declare<Conv2d>("conv2d", "Convolution of images.",
                      {key("channels", &Conv2d::channels, "output channels").in(kWidth).required(),
                       pair<Conv2d>(
                           "kernel",
                           [](Conv2d& c) {
                             return Pair{&c.kernel_h, &c.kernel_w};
                           },
                           "window")
                           .in(kWindow)
                           .required(),
                       pair<Conv2d>(
                           "stride",
                           [](Conv2d& c) {
                             return Pair{&c.convolution.stride_h, &c.convolution.stride_w};
                           },
                           "step of the window")
                           .in(kWindow),
                       padding,
                       pair<Conv2d>(
                           "dilation",
                           [](Conv2d& c) {
                             return Pair{&c.convolution.dilation_h, &c.convolution.dilation_w};
                           },
                           "distance of the window's elements")
                           .in(kWindow),
                       groups, key("bias", &Conv2d::bias, "add a number per channel")},
                      kActivation | kRepeat | kWeights),
      check_groups);
}

DeclaredLayer linear() {
  const auto tie = key("tie", &Linear::tie,
                       "full name of an embedding before it, like \"wte\", whose table is its "
                       "weight; its gradients are added up")
                       .brief();
  const auto file_layout = custom<Linear>(
      {.name = "file_layout",
       .default_text = "\"out_in\"",
       .choices = {"out_in", "in_out"},
       .documentation = "order of the weight in files: [outputs, inputs] as PyTorch's linear "
                        "layers, [inputs, outputs] as GPT-2's",
       .brief = true},
      [](const Setting& v, Linear& l) {
        l.file_in_out =
            row_of<bool>("file_layout", v.string, {{"out_in", false}, {"in_out", true}});
      });
  return checked(
      declare<Linear>("linear", "Fully connected, over the last dimension.",
                      {key("features", &Linear::features, "output features").in(kWidth).required(),
                       key("bias", &Linear::bias, "add a number per feature"), tie, file_layout},
                      kActivation | kRepeat | kWeights),
      check_tie);
}

DeclaredLayer pool(const std::string& name, const std::string& documentation, bool max) {
  using graph::Pooling;
  // A stride that is not given equals the kernel's size, so this key, which is read before
  // `stride`, sets both.
  const auto kernel = custom<Pool2d>({.name = "kernel",
                                      .type = Type::kPair,
                                      .required = true,
                                      .range = kWindow,
                                      .documentation = "window, an integer or [h, w]"},
                                     [](const Setting& v, Pool2d& p) {
                                       assign(v, Pair{&p.pooling.kernel_h, &p.pooling.kernel_w});
                                       assign(v, Pair{&p.pooling.stride_h, &p.pooling.stride_w});
                                     });
  const auto stride = custom<Pool2d>(
      {.name = "stride",
       .type = Type::kPair,
       .range = kWindow,
       .documentation = "step of the window; without it, the kernel, an integer or [h, w]"},
      [](const Setting& v, Pool2d& p) {
        assign(v, Pair{&p.pooling.stride_h, &p.pooling.stride_w});
      });
  const auto padding = custom<Pool2d>(
      {.name = "padding",
       .type = Type::kPair,
       .default_text = "0",
       .range = kPadding,
       .documentation = "elements on each side, below the kernel, an integer or [h, w]"},
      [](const Setting& v, Pool2d& p) { set_padding(v, p.pooling.padding); });
  std::vector<LayerKey<Pool2d>> keys = {kernel, stride, padding};
  if (!max) {
    keys.push_back(key("count_include_pad", &Pool2d::pooling, &Pooling::count_include_pad,
                       "padding counts in the mean"));
  }
  return checked(declare<Pool2d>(name, documentation, std::move(keys), kRepeat, Pool2d{max, {}}),
                 check_pool_padding);
}

DeclaredLayer adaptive_avg_pool2d() {
  return declare<AdaptiveAvgPool2d>("adaptive_avg_pool2d",
                                    "Mean of windows that make an image of the given size.",
                                    {pair<AdaptiveAvgPool2d>(
                                         "size",
                                         [](AdaptiveAvgPool2d& p) {
                                           return Pair{&p.height, &p.width};
                                         },
                                         "size of the result, of which the image's is a multiple")
                                         .in(kWindow)
                                         .required()});
}

DeclaredLayer function(const std::string& name, const std::string& documentation) {
  return declare<Activation>(name, documentation, {}, 0,
                             Activation{graph::activation_function(name)});
}

DeclaredLayer dropout() {
  return declare<Dropout>(
      "dropout", "Random zeros in training, nothing in evaluation.",
      {key("probability", &Dropout::probability, "share of the elements set to 0 in training")
           .in(config::from_zero_to_below(1))});
}

DeclaredLayer batch_norm() {
  return declare<BatchNorm>(
      "batch_norm", "Normalisation over the batch, per channel.",
      {key("momentum", &BatchNorm::momentum, "weight of a new batch in the running statistics")
           .in(kAboveZeroToOne),
       key("eps", &BatchNorm::epsilon, "added to the variance").in(kAboveZeroToOne)},
      kActivation);
}

DeclaredLayer layer_norm() {
  return declare<LayerNorm>(
      "layer_norm",
      "Normalisation over the features of each sample or token, the channels of each pixel.",
      {key("eps", &LayerNorm::epsilon, "added to the variance").in(kAboveZeroToOne),
       key("bias", &LayerNorm::bias, "add a number per feature").brief()},
      kActivation);
}

DeclaredLayer global_avg_pool() {
  return declare<GlobalAvgPool>(
      "global_avg_pool", "Mean over height and width, or over tokens: to vectors.",
      {key("documents", &GlobalAvgPool::documents,
           "tokens: named input, as that of attention; those below 0 are padding and do not count")
           .brief()});
}

DeclaredLayer input() {
  const auto shape = custom<Input>(
      {.name = "shape",
       .type = Type::kIntegers,
       .default_text = "[]",
       .range = kWidth,
       .max_items = 3,
       .documentation = "of a sample: [features], [length] or [channels, height, width]; []: that "
                        "of model.input",
       .brief = true},
      [](const Setting& v, Input& input) {
        for (const Setting& item : v.items) input.shape.push_back(item.integer);
      });
  const auto type = custom<Input>(
      {.name = "values",
       .default_text = "\"numbers\"",
       .choices = {"numbers", "integers"},
       .documentation = "integers of 32 bits, as token ids and categories are, or numbers"},
      [](const Setting& v, Input& input) {
        input.integers = row_of<bool>("values", v.string, {{"numbers", false}, {"integers", true}});
      });
  return declare<Input>("input",
                        "A named input of the samples ([[dataset.input]], dataset.separator), in "
                        "place of the result of the layer before it.",
                        {key("input", &Input::input, "its name").required(), shape, type});
}

DeclaredLayer residual() {
  return declare<Residual>(
      "residual", "layers(x) + shortcut(x).",
      {list("layers", &Residual::layers, "the branch").required(),
       list("shortcut", &Residual::shortcut, "the other branch; empty: x itself"),
       prefix<Residual>()},
      kActivation | kRepeat);
}

DeclaredLayer join() {
  const auto by = custom<Join>(
      {.name = "by",
       .required = true,
       .choices = {"add", "multiply", "concat"},
       .documentation = "sum or product of the two, or their features side by side"},
      [](const Setting& v, Join& j) {
        j.by = row_of<JoinBy>(
            "by", v.string,
            {{"add", JoinBy::kAdd}, {"multiply", JoinBy::kMultiply}, {"concat", JoinBy::kConcat}});
      });
  return declare<Join>(
      "join", "Two branches whose results become one.",
      {list("layers", &Join::layers, "the branch").required(),
       list("other", &Join::other, "the other branch; empty: x itself"), by, prefix<Join>()},
      kActivation | kRepeat);
}

// Losses of labels and of any numbers; those of probabilities expect a certain range.
std::vector<std::string> losses_of_heads() {
  std::vector<std::string> names;
  for (const config::Loss& loss : config::losses()) {
    if (loss.of_classes() || loss.targets == config::Targets::kNumbers) names.push_back(loss.name);
  }
  return names;
}

DeclaredLayer auxiliary_head() {
  const auto loss = key("loss", &AuxiliaryHead::loss,
                        "cross_entropy with labels, integers from 0; the others with as many "
                        "numbers as the branch gives")
                        .one_of(losses_of_heads())
                        .brief();
  return declare<AuxiliaryHead>(
      "auxiliary_head",
      "x itself, and in training a further loss: that of a branch and a named input of the samples "
      "(a second label).",
      {list("layers", &AuxiliaryHead::layers, "the branch").required(),
       key("target", &AuxiliaryHead::target, "name of a [[dataset.input]]").required(), loss,
       key("loss_weight", &AuxiliaryHead::loss_weight, "factor of its loss in the sum")
           .in(config::above_zero())
           .brief(),
       prefix<AuxiliaryHead>()});
}

DeclaredLayer block() {
  return declare<Block>("block", "Layers in a row under one name.",
                        {list("layers", &Block::layers, "the layers").required(), prefix<Block>()},
                        kRepeat);
}

std::vector<DeclaredLayer> general_layers() {
  return {
      conv2d(),
      linear(),
      pool("max_pool2d", "Largest element of each window.", true),
      pool("avg_pool2d", "Mean of each window.", false),
      adaptive_avg_pool2d(),
      global_avg_pool(),
      declare<Flatten>("flatten", "Samples to vectors, in the order channels, height, width.", {}),
      declare<ImageToTokens>("image_to_tokens", "Each pixel becomes a token, row by row.", {}),
      function("relu", "max(x, 0)."),
      function("gelu", "x * normal distribution(x)."),
      function("gelu_tanh", "gelu by the tanh formula."),
      function("tanh", "Hyperbolic tangent."),
      function("sigmoid", "1 / (1 + exp(-x))."),
      declare<Softmax>("softmax",
                       "Over the features of each sample or token, the channels of each pixel; the "
                       "loss cross_entropy has its own.",
                       {}),
      dropout(),
      batch_norm(),
      layer_norm(),
      formula({.name = "silu",
               .signature = "x -> y",
               .formula = "y = x * sigmoid(x)",
               .documentation = "x * sigmoid(x).",
               .attributes = {},
               .parameters = {}}),
      formula({.name = "l2_norm",
               .signature = "x[R*,D] -> y[R*,D]",
               .formula = "y = x / sqrt(sum(x * x, 1) + 1e-24)",
               .documentation = "The features of each sample or token, divided by the root of the "
                                "sum of their squares.",
               .attributes = {},
               .parameters = {}}),
      input(),
      residual(),
      join(),
      auxiliary_head(),
      block(),
  };
}

const std::vector<DeclaredLayer>& declared_layers() {
  static const std::vector<DeclaredLayer>& all = *new auto([] {
    std::vector<DeclaredLayer> layers = general_layers();
    for (DeclaredLayer& layer : token_layers()) layers.push_back(std::move(layer));
    return layers;
  }());
  return all;
}

// The keys of an open type beside its attributes. Its parameters cannot be split over ranks.
std::vector<LayerKey<Layer>> keys_beside(const config::OpenOperation& operation) {
  std::vector<LayerKey<Layer>> keys = common_keys(kActivation | kRepeat);
  const bool weights = std::any_of(operation.parameters.begin(), operation.parameters.end(),
                                   [](const config::OpenParameter& p) { return !p.constant; });
  if (!weights) return keys;
  for (LayerKey<Layer>& key : common_keys(kWeights)) {
    if (key.declared.name == "l2" || key.declared.name == "init") keys.push_back(std::move(key));
  }
  return keys;
}

config::LayerType open_layer_type(const config::SharedOperation& operation) {
  config::LayerType type{operation->name, operation->documentation, operation->attributes, {}};
  type.operation = operation;
  for (const LayerKey<Layer>& key : keys_beside(*operation)) {
    if (key.declared.name == "type" || config::find_key(operation->attributes, key.declared.name)) {
      throw DeviceError("operation " + operation->name + ": its attribute '" + key.declared.name +
                        "' has the name of a key that every layer has; the plugin has to be "
                        "corrected");
    }
    type.keys.push_back(key.declared);
  }
  return type;
}

Layer to_open_layer(const config::SharedOperation& operation, const config::Layer& from) {
  Layer layer;
  layer.kind = Open{operation, config::read_attributes(*operation, from.values)};
  read_keys(keys_beside(*operation), from, layer);
  return layer;
}

Layer to_layer(const config::Layer& from) {
  if (const auto& operation = from.type->operation) return to_open_layer(operation, from);
  for (const DeclaredLayer& declared : declared_layers())
    if (declared.type.name == from.type->name) return declared.make(from);
  throw ConfigurationError(from.position.text() + ": layer type '" + from.type->name +
                           "' is not in the table of layers");
}

}  // namespace

void assign(const Setting& value, const Pair& pair) {
  const bool list = value.is(Setting::Kind::kArray);
  *pair.h = list ? value.items[0].integer : value.integer;
  *pair.w = list ? value.items[1].integer : value.integer;
}

const config::Position& position(const config::Layer& layer, const std::string& key) {
  const Setting* value = layer.find(key);
  return value == nullptr ? layer.position : value->position;
}

DeclaredLayer checked(DeclaredLayer layer,
                      void (*check)(const config::Layer& layer, const std::string& path)) {
  layer.type.check = check;
  return layer;
}

std::vector<LayerKey<Layer>> common_keys(unsigned which) {
  std::vector<LayerKey<Layer>> keys;
  if (which & kActivation) keys.push_back(activation());
  if (which & kRepeat)
    keys.push_back(key("repeat", &Layer::repeat,
                       "that many in a row, each with weights of its own, named <name>.0, "
                       "<name>.1, ...")
                       .in({.minimum = 1, .maximum = 1000})
                       .brief());
  if (which & kWeights) {
    keys.push_back(key("l2", &Layer::l2, "adds l2 * sum(w^2) of its weights to the loss")
                       .in(config::at_least(0))
                       .brief());
    keys.push_back(init());
    keys.push_back(key("shard", &Layer::shard,
                       "tensor parallelism: how its weight is split over the ranks: by outputs "
                       "(column), by inputs (row), not at all, or as takes the fewest collectives")
                       .one_of({"auto", "none", "column", "row"})
                       .brief());
  }
  keys.push_back(stage());
  keys.push_back(key("name", &Layer::name,
                     "part of the parameters' names, unique in its list; letters, digits, _ and "
                     "-, parts joined by dots")
                     .brief());
  return keys;
}

DeclaredLayer formula(config::OpenOperation layer) {
  if (layer.formula.empty()) throw InternalError("the layer " + layer.name + " has no formula");
  config::LayerType type{layer.name, layer.documentation, layer.attributes, {}};
  for (const LayerKey<Layer>& key : keys_beside(layer)) type.keys.push_back(key.declared);
  layer.name.insert(0, graph::kOwnOperation);
  return {std::move(type),
          std::bind_front(to_open_layer,
                          std::make_shared<const config::OpenOperation>(std::move(layer)))};
}

std::vector<Layer> to_layers(const std::vector<config::Layer>& layers) {
  std::vector<Layer> list;
  for (const config::Layer& layer : layers) list.push_back(to_layer(layer));
  return list;
}

config::LayerTypes open_layer_types(const std::vector<config::SharedOperation>& operations) {
  config::LayerTypes types;
  for (const config::SharedOperation& o : operations) types.push_back(open_layer_type(o));
  return types;
}

const config::LayerTypes& layer_types() {
  static const config::LayerTypes all = [] {
    config::LayerTypes types;
    for (const DeclaredLayer& layer : declared_layers()) types.push_back(layer.type);
    return types;
  }();
  return all;
}

}  // namespace runtime::model
