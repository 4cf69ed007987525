#include "runtime/config/schema_sections.h"

namespace runtime::config {
namespace {

constexpr double kMaxWidth = 16777216;  // channels or features; far above any real layer
constexpr double kMaxWindow = 4096;     // kernel, stride, padding, dilation

Key of_type(Type type, const std::string& name, const std::string& default_text,
            const std::string& documentation) {
  return {.name = name, .type = type, .default_text = default_text, .documentation = documentation};
}

Key text(const std::string& name, const std::string& default_text,
         const std::string& documentation) {
  return of_type(Type::kString, name, default_text, documentation);
}

Key flag(const std::string& name, const std::string& default_text,
         const std::string& documentation) {
  return of_type(Type::kBoolean, name, default_text, documentation);
}

Key integer(const std::string& name, const std::string& default_text, const Range& range,
            const std::string& documentation) {
  Key key = of_type(Type::kInteger, name, default_text, documentation);
  key.range = range;
  return key;
}

Key number(const std::string& name, const std::string& default_text, const Range& range,
           const std::string& documentation) {
  Key key = of_type(Type::kNumber, name, default_text, documentation);
  key.range = range;
  return key;
}

Key choice(const std::string& name, const std::string& default_text,
           std::vector<std::string> choices, const std::string& documentation) {
  Key key = text(name, default_text, documentation);
  key.choices = std::move(choices);
  return key;
}

enum Common : unsigned { kActivation = 1, kRepeat = 2, kWeights = 4 };

Key width(const std::string& name, const std::string& documentation) {
  return {.name = name,
          .type = Type::kInteger,
          .required = true,
          .range = {.minimum = 1, .maximum = kMaxWidth},
          .documentation = documentation};
}

Key window(const std::string& name, double minimum, const std::string& default_text,
           const std::string& documentation) {
  return {.name = name,
          .type = Type::kPair,
          .default_text = default_text,
          .required = name == "kernel" || name == "size",
          .range = {.minimum = minimum, .maximum = kMaxWindow},
          .documentation = documentation + ", an integer or [h, w]"};
}

Key positive(const std::string& name, const std::string& default_text, double maximum,
             const std::string& documentation) {
  return number(name, default_text, {.minimum = 0, .maximum = maximum, .open_minimum = true},
                documentation);
}

Key list(const std::string& name, bool required, const std::string& documentation) {
  return {.name = name,
          .type = Type::kLayers,
          .default_text = required ? "" : "[]",
          .required = required,
          .documentation = documentation};
}

Key name_key() {
  return text("name", "\"\"",
              "part of the parameters' names, unique in its list; letters, digits, _ and -, parts "
              "joined by dots");
}

Key activation_key() {
  return choice("activation", "\"\"", {"", "relu", "gelu", "gelu_tanh", "tanh", "sigmoid"},
                "applied to the result");
}

Key repeat_key() {
  return integer("repeat", "1", {.minimum = 1, .maximum = 1000},
                 "that many in a row, each with weights of its own, named <name>.0, <name>.1, ...");
}

Key l2_key() {
  return number("l2", "0.0", {.minimum = 0}, "adds l2 * sum(w^2) of its weights to the loss");
}

Key init_key() {
  return {.name = "init",
          .type = Type::kInit,
          .documentation = "initial weights, instead of model.init"};
}

Key stage_key() {
  return {.name = "stage",
          .type = Type::kInteger,
          .range = {.minimum = 0, .maximum = 65535},
          .documentation =
              "pipeline stage that computes it, counted from 0; without it, that of "
              "the layer around it, else stages are balanced by cost"};
}

Key shard_key() {
  return choice("shard", "\"auto\"", {"auto", "none", "column", "row"},
                "tensor parallelism: how its weight is split over the ranks: by outputs (column), "
                "by inputs (row), not at all, or as takes the fewest collectives");
}

// The key of layers that contain other layers.
Key prefix_key() {
  return flag("prefix", "true", "its name goes before the names of the parameters inside");
}

LayerType layer(const std::string& name, const std::string& documentation, std::vector<Key> keys,
                unsigned common = 0) {
  if (common & kActivation) keys.push_back(activation_key());
  if (common & kRepeat) keys.push_back(repeat_key());
  if (common & kWeights) keys.push_back(l2_key());
  if (common & kWeights) keys.push_back(init_key());
  if (common & kWeights) keys.push_back(shard_key());
  keys.push_back(stage_key());
  keys.push_back(name_key());
  return {name, documentation, std::move(keys)};
}

LayerType conv2d() {
  Key padding = window("padding", 0, "0", "zeros on each side");
  padding.type = Type::kPadding;
  padding.documentation += ", or \"same\" (size / stride, rounded up)";
  Key groups = integer("groups", "1", {.minimum = 1, .maximum = kMaxWidth},
                       "divides the channels of input and output");
  return layer("conv2d", "Convolution of images.",
               {width("channels", "output channels"), window("kernel", 1, "", "window"),
                window("stride", 1, "1", "step of the window"), padding,
                window("dilation", 1, "1", "distance of the window's elements"), groups,
                flag("bias", "true", "add a number per channel")},
               kActivation | kRepeat | kWeights);
}

LayerType linear() {
  Key tie = text("tie", "\"\"",
                 "full name of an embedding before it, like \"wte\", whose table is its weight; "
                 "its gradients are added up");
  Key file_layout = choice("file_layout", "\"out_in\"", {"out_in", "in_out"},
                           "order of the weight in files: [outputs, inputs] as PyTorch's linear "
                           "layers, [inputs, outputs] as GPT-2's");
  return layer("linear", "Fully connected, over the last dimension.",
               {width("features", "output features"),
                flag("bias", "true", "add a number per feature"), tie, file_layout},
               kActivation | kRepeat | kWeights);
}

LayerType pool(const std::string& name, const std::string& documentation, bool average) {
  std::vector<Key> keys = {window("kernel", 1, "", "window"),
                           window("stride", 1, "", "step of the window; without it, the kernel"),
                           window("padding", 0, "0", "elements on each side, below the kernel")};
  if (average) keys.push_back(flag("count_include_pad", "true", "padding counts in the mean"));
  return layer(name, documentation, std::move(keys), kRepeat);
}

LayerType dropout() {
  Key probability = number("probability", "0.5", {.minimum = 0, .maximum = 1, .open_maximum = true},
                           "share of the elements set to 0 in training");
  return layer("dropout", "Random zeros in training, nothing in evaluation.", {probability});
}

LayerType embedding() {
  return layer("embedding", "A row of a table for each token.",
               {width("vocabulary", "rows: number of different tokens"),
                width("features", "length of a row")},
               kWeights);
}

LayerType position_embedding() {
  Key length =
      integer("length", "0", {.minimum = 0, .maximum = kMaxWidth},
              "rows of the table, of which the first are used; 0: as many as a sample has tokens");
  return layer("position_embedding", "Adds a learned row to each token, by its place.", {length},
               kWeights);
}

LayerType attention() {
  return layer("attention",
               "Scaled dot-product attention of tokens that a linear layer has made three times as "
               "wide: queries, keys, values.",
               {width("heads", "parts of the width that attend on their own"),
                flag("causal", "false", "no token sees those behind it")});
}

LayerType residual() {
  return layer("residual", "layers(x) + shortcut(x).",
               {list("layers", true, "the branch"),
                list("shortcut", false, "the other branch; empty: x itself"), prefix_key()},
               kActivation | kRepeat);
}

std::vector<LayerType> make_layer_types() {
  std::vector<LayerType> all = {
      conv2d(),
      linear(),
      pool("max_pool2d", "Largest element of each window.", false),
      pool("avg_pool2d", "Mean of each window.", true),
      layer("adaptive_avg_pool2d", "Mean of windows that make an image of the given size.",
            {window("size", 1, "", "size of the result, of which the image's is a multiple")}),
      layer("global_avg_pool", "Mean over height and width, or over tokens: to vectors.", {}),
      layer("flatten", "Samples to vectors, in the order channels, height, width.", {}),
      layer("image_to_tokens", "Each pixel becomes a token, row by row.", {}),
      layer("relu", "max(x, 0).", {}),
      layer("gelu", "x * normal distribution(x).", {}),
      layer("gelu_tanh", "gelu by the tanh formula.", {}),
      layer("tanh", "Hyperbolic tangent.", {}),
      layer("sigmoid", "1 / (1 + exp(-x)).", {}),
      layer("softmax",
            "Over the features of each sample or token, the channels of each pixel; the loss "
            "cross_entropy "
            "has its own.",
            {}),
      dropout(),
      layer("batch_norm", "Normalisation over the batch, per channel.",
            {positive("momentum", "0.1", 1, "weight of a new batch in the running statistics"),
             positive("eps", "1e-05", 1, "added to the variance")},
            kActivation),
      layer("layer_norm",
            "Normalisation over the features of each sample or token, the channels of each pixel.",
            {positive("eps", "1e-05", 1, "added to the variance")}, kActivation),
      embedding(),
      position_embedding(),
      attention(),
      residual(),
      layer("block", "Layers in a row under one name.",
            {list("layers", true, "the layers"), prefix_key()}, kRepeat),
  };
  return all;
}

}  // namespace

const std::vector<LayerType>& layer_types() {
  static const std::vector<LayerType> all = make_layer_types();
  return all;
}

}  // namespace runtime::config
