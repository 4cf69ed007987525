// The layers of networks for tokens as plain data. N is the number of samples, T of tokens, C of
// channels.
#ifndef RUNTIME_MODEL_TOKEN_LAYER_H_
#define RUNTIME_MODEL_TOKEN_LAYER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/graph/build.h"
#include "runtime/model/rotations.h"

namespace runtime::model {

struct Layer;

// Below, kShortName begins the names of layers that have no name: "attention1".

// Divides the features of each sample, token or pixel by their root mean square; or those of each
// of `heads` equal parts, which share the weight.
struct RmsNorm {
  static constexpr const char* kShortName = "rms_norm";

  double epsilon = 1e-6;
  int64_t heads = 1;
};
// Turns pairs of features of each head by angles that grow with the token's place.
struct Rotary {
  static constexpr const char* kShortName = "rotary";

  int64_t heads = 1;
  Rotations rotations;
};
// Token ids [N, T] -> rows of a learned table [N, T, features].
struct Embedding {
  static constexpr const char* kShortName = "embedding";

  int64_t vocabulary = 0, features = 0;
};
// Adds the first rows of a learned table to the tokens. If `length` is 0, the table has as many
// rows as a sample has tokens.
struct PositionEmbedding {
  static constexpr const char* kShortName = "position";

  int64_t length = 0;
  std::string positions =
      {};  // the named input, int32 [T], with the row of each token; "": its place
};
// Adds sines and cosines of the token's place, in turn: features 2k and 2k + 1 turn by
// base^(-2k / C) from one token to the next. Source: Vaswani et al., "Attention Is All You Need",
// 2017.
struct SinusoidalPosition {
  static constexpr const char* kShortName = "sinusoids";

  double base = 10000;
  std::string positions = {};  // as that of PositionEmbedding
};
// The first of the tokens, [N, T, C] -> [N, C].
struct FirstToken {
  static constexpr const char* kShortName = "first_token";
};
// Attention of tokens. Queries, keys and values lie side by side in the input, heads * D, key_heads
// * D and key_heads * D features; or each is the result of a list of layers, of which an empty one
// is the input itself. The result has heads * D features.
struct Attention {
  static constexpr const char* kShortName = "attention";

  // Heads, causality, window, scale and probability of dropout; the other members are not used.
  graph::DotProductAttention options;
  std::vector<Layer> query, key, value;
  // The named input, int32 [T], that says to which document each token belongs; tokens see those of
  // their own document, and a negative number is padding. "": all tokens are of one.
  std::string documents = {};
  bool prefix = true;

  bool is_packed() const { return query.empty() && key.empty() && value.empty(); }
};

}  // namespace runtime::model

#endif  // RUNTIME_MODEL_TOKEN_LAYER_H_
