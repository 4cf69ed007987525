// The layers of networks for tokens: keys, ranges and documentation.
#include "runtime/error.h"
#include "runtime/graph/activations.h"
#include "runtime/model/declare_layer.h"
#include "runtime/row_of.h"

namespace runtime::model {

namespace {

using Setting = config::Value;

DeclaredLayer rms_norm() {
  return declare<RmsNorm>(
      "rms_norm",
      "Divides the features of each sample or token, the channels of each pixel, by their root "
      "mean square.",
      {key("eps", &RmsNorm::epsilon, "added to the mean square").in(kAboveZeroToOne),
       key("heads", &RmsNorm::heads,
           "parts of the features, each divided by its own; they share the weight")
           .in(kWidth)
           .brief()},
      kActivation);
}

// A way in which angles shrink, and the keys that it reads.
struct ScalingRow {
  const char* name;
  RotationScaling scaling;
  bool has_factor, has_length;
  double high;  // where the key is 0
};

constexpr ScalingRow kScalings[] = {{"none", RotationScaling::kNone, false, false, 0},
                                    {"linear", RotationScaling::kLinear, true, false, 0},
                                    {"llama3", RotationScaling::kLlama3, true, true, 4},
                                    {"yarn", RotationScaling::kYarn, true, true, 32}};

const ScalingRow& scaling_row(const std::string& name) {
  return find_row("scaling", name, kScalings);
}

void check_rotary(const config::Layer& layer, const std::string& path) {
  const ScalingRow& row = scaling_row(layer.find("scaling")->string);
  const std::string with = std::string(" with scaling = \"") + row.name + "\"";
  const auto number = [&](const char* key) { return layer.find(key)->as_number(); };
  const auto expect = [&](bool fits, const char* key, const std::string& expected) {
    if (!fits) config::fail_wrong(*layer.find(key), path + "." + key, expected);
  };
  expect(number("base") > 1, "base", "more than 1");
  expect(layer.find("columns")->integer % 2 == 0, "columns", "an even number");
  if (!row.has_factor) return;
  expect(number("factor") >= 1, "factor", "at least 1" + with);
  if (!row.has_length) return;
  expect(layer.find("original_length")->integer > 0, "original_length",
         "the tokens of the first training" + with);
  const double low = number("low") > 0 ? number("low") : 1;
  const double high = number("high") > 0 ? number("high") : row.high;
  expect(high > low, "high", "more than low");
}

LayerKey<Rotary> rotations(const std::string& name, double Rotations::*member,
                           const std::string& documentation) {
  return key(name, &Rotary::rotations, member, documentation)
      .in({.minimum = 0, .maximum = 1e12})
      .brief();
}

DeclaredLayer rotary() {
  const auto columns = key("columns", &Rotary::rotations, &Rotations::columns,
                           "features of each head that turn, an even number; 0: all")
                           .in({.minimum = 0, .maximum = kMaxWidth});
  const auto scaling = custom<Rotary>(
      {.name = "scaling",
       .default_text = "\"none\"",
       .choices = names_of_rows(kScalings),
       .documentation = "how angles shrink for texts longer than those of the first training"},
      [](const Setting& v, Rotary& r) { r.rotations.scaling = scaling_row(v.string).scaling; });
  const auto length = key("original_length", &Rotary::rotations, &Rotations::original_length,
                          "tokens of a text of the first training, for llama3 and yarn")
                          .in({.minimum = 0, .maximum = kMaxWidth})
                          .brief();
  return checked(
      declare<Rotary>("rotary",
                      "Turns pairs of features of queries and keys by angles that grow with the "
                      "token's place.",
                      {key("heads", &Rotary::heads, "heads that lie side by side in the features")
                           .in(kWidth)
                           .required(),
                       rotations("base", &Rotations::base,
                                 "theta: pair k of d features turns by base^(-2k/d) each token"),
                       columns, scaling,
                       rotations("factor", &Rotations::factor, "by which angles shrink"), length,
                       rotations("low", &Rotations::low,
                                 "turns in original_length below which all of the factor applies; "
                                 "0: 1"),
                       rotations("high", &Rotations::high,
                                 "turns above which angles stay; 0: 4 for llama3, 32 for yarn"),
                       rotations("attention", &Rotations::attention,
                                 "yarn: what turns are multiplied by; 0: 0.1 ln(factor) + 1")}),
      check_rotary);
}

DeclaredLayer embedding() {
  return declare<Embedding>(
      "embedding", "A row of a table for each token.",
      {key("vocabulary", &Embedding::vocabulary, "rows: number of different tokens")
           .in(kWidth)
           .required(),
       key("features", &Embedding::features, "length of a row").in(kWidth).required()},
      kWeights);
}

DeclaredLayer position_embedding() {
  return declare<PositionEmbedding>(
      "position_embedding", "Adds a learned row to each token, by its place.",
      {key("length", &PositionEmbedding::length,
           "rows of the table, of which the first are used; 0: as many as a sample has tokens")
           .in({.minimum = 0, .maximum = kMaxWidth}),
       key("positions", &PositionEmbedding::positions,
           "named input with the row of each token, for example \"positions\" (dataset.separator); "
           "empty: its place")
           .brief()},
      kWeights);
}

DeclaredLayer sinusoidal_position() {
  return declare<SinusoidalPosition>(
      "sinusoidal_position", "Adds sines and cosines of its place to each token.",
      {key("base", &SinusoidalPosition::base,
           "features 2k and 2k + 1 of d turn by base^(-2k/d) each token")
           .in({.minimum = 1, .maximum = 1e12}),
       key("positions", &SinusoidalPosition::positions,
           "named input with the place of each token, as that of position_embedding")
           .brief()});
}

DeclaredLayer first_token() {
  return declare<FirstToken>("first_token", "The first of the tokens: to vectors.", {});
}

// A key whose value is in a member of the options of attention.
template <class M>
LayerKey<Attention> option(const std::string& name, M graph::DotProductAttention::*member,
                           const config::Range& range, const std::string& documentation) {
  return key(name, &Attention::options, member, documentation).in(range);
}

void check_attention(const config::Layer& layer, const std::string& path) {
  const int64_t heads = layer.find("heads")->integer, keys = layer.find("key_heads")->integer;
  if (keys > 0 && heads % keys != 0) {
    config::fail(position(layer, "key_heads"), path + ".key_heads",
                 "wrong value: got " + std::to_string(keys) + ", expected a divisor of heads, " +
                     std::to_string(heads));
  }
  if (layer.find("window")->integer == 0 || layer.find("causal")->boolean) return;
  config::fail(position(layer, "window"), path + ".window",
               "is for tokens that see only those before them; set causal = true, or remove it");
}

DeclaredLayer attention() {
  using Options = graph::DotProductAttention;
  return checked(
      declare<Attention>(
          "attention",
          "Scaled dot-product attention of tokens: to queries, keys and values side by side in "
          "the features, as a linear layer makes them, or to the results of three branches.",
          {option("heads", &Options::heads, kWidth, "parts of the width that attend on their own")
               .required(),
           option("key_heads", &Options::key_heads, {.minimum = 0, .maximum = kMaxWidth},
                  "heads of the keys and values, each for neighbouring heads of queries; 0: heads"),
           option("causal", &Options::causal, {}, "no token sees those behind it"),
           option("window", &Options::window, {.minimum = 0, .maximum = kMaxWidth},
                  "tokens that a token sees, itself and those before it; 0: all"),
           option("dropout", &Options::probability, config::from_zero_to_below(1),
                  "share of the weights set to 0 in training"),
           option("scale", &Options::scale, {.minimum = 0},
                  "what scores are multiplied by; 0: 1 / sqrt(features of a head)"),
           key("documents", &Attention::documents,
               "named input that says to which document each token belongs, for example "
               "\"documents\" (dataset.separator): tokens see those of their own, and none sees "
               "those below 0. Empty: all are of one")
               .brief(),
           list("query", &Attention::query, "layers that make the queries of the input"),
           list("key", &Attention::key, "layers that make the keys"),
           list("value", &Attention::value, "layers that make the values"), prefix<Attention>()}),
      check_attention);
}

DeclaredLayer gated() {
  const auto function = custom<Gated>(
      {.name = "function",
       .default_text = "\"silu\"",
       .choices = {"silu", "gelu", "gelu_tanh", "relu", "tanh", "sigmoid"},
       .documentation = "of the gate: silu makes it SwiGLU, gelu GeGLU"},
      [](const Setting& v, Gated& g) { g.function = graph::activation_function(v.string); });
  return declare<Gated>(
      "gated", "function(gate(x)) * up(x).",
      {list("gate", &Gated::gate, "the layers of the gate").required(),
       list("up", &Gated::up, "the other branch; empty: x itself"), function, prefix<Gated>()},
      kRepeat);
}

}  // namespace

std::vector<DeclaredLayer> token_layers() {
  return {rms_norm(), embedding(), position_embedding(), sinusoidal_position(),
          rotary(),   attention(), first_token(),        gated()};
}

}  // namespace runtime::model
