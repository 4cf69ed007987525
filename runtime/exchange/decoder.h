// The Llama family: decoders with rotary positions, root mean square normalisation and gated
// perceptrons.
#ifndef RUNTIME_EXCHANGE_DECODER_H_
#define RUNTIME_EXCHANGE_DECODER_H_

#include "runtime/exchange/family.h"
#include "runtime/exchange/toml_layers.h"
#include "runtime/model/rotations.h"

namespace runtime::exchange {

// One model of the family. Sizes are numbers of features unless said otherwise.
struct Decoder : Architecture {
  std::string model_type = "llama";
  int64_t width = 0, hidden = 0;  // of a token, and inside of a perceptron
  int64_t heads = 1, key_heads = 1, head_width = 1;
  double epsilon = 1e-6;
  model::Rotations rotations = {};
  std::string function = "silu";  // of the gate, as a layer names it
  bool query_bias = false, output_bias = false, mlp_bias = false;  // query: of keys and values, too
  bool head_norms = false;            // queries and keys of each head are normalised
  bool tied = false;                  // the head is the embedding
  double dropout = 0;                 // on attention's weights
  std::vector<int64_t> windows = {};  // of each layer, in tokens; 0: all

  std::string layers() const override;
  nlohmann::ordered_json config() const override;
  std::string name_of(const std::string& tensor) const override;

 private:
  TomlLayer linear(const std::string& name, int64_t features, bool bias) const;
  TomlLayer norm(const std::string& name) const;
  std::vector<TomlLayer> projection(const std::string& which, int64_t of_heads) const;
  TomlLayer rotary(int64_t of_heads) const;
  std::vector<TomlLayer> block(int64_t window) const;
};

// The rotations of a configuration, and the keys of a configuration for rotations. The first throws
// DataError for a scaling that it does not know.
model::Rotations read_rotations(const JsonObject& config, int64_t head_width, int64_t places);
nlohmann::ordered_json rope_scaling(const model::Rotations& rotations);

}  // namespace runtime::exchange

#endif  // RUNTIME_EXCHANGE_DECODER_H_
