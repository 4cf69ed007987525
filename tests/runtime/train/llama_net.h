// A small Llama for tests that cut one model over several ranks.
#ifndef TESTS_RUNTIME_TRAIN_LLAMA_NET_H_
#define TESTS_RUNTIME_TRAIN_LLAMA_NET_H_

#include <string>

#include "tests/runtime/train/mesh_nets.h"

namespace runtime::train {

// As Llama: heads that share keys and whose queries and keys are normalised, rotary positions, a
// window, dropout on attention's weights, and documents that are packed into a window. A second
// label of each token is its place in the document. A table of rows by the place in a document is
// added, so that a model reads all inputs of such samples.
inline const std::string kSmallLlama = R"(
[model]
input = [12]
init = { normal = 0.2 }
layers = [
  { type = "embedding", name = "tokens", vocabulary = 9, features = 16 },
  { type = "position_embedding", name = "places", positions = "positions" },
  { type = "join", prefix = false, by = "add", layers = [
    { type = "input", input = "segments", values = "integers" },
    { type = "embedding", name = "segments", vocabulary = 1, features = 16 } ] },
  { type = "block", name = "layers", repeat = 4, layers = [
    { type = "residual", prefix = false, layers = [
      { type = "rms_norm", name = "before" },
      { type = "attention", prefix = false, heads = 4, key_heads = KEYS, causal = true, window = 5, dropout = 0.1, documents = "documents", query = [
          { type = "linear", name = "q", features = 16 }, { type = "rms_norm", name = "q_norm", heads = 4, eps = 0.1 }, { type = "rotary", heads = 4 } ], key = [
          { type = "linear", name = "k", features = WIDTH, bias = false }, { type = "rms_norm", name = "k_norm", heads = KEYS, eps = 0.1 }, { type = "rotary", heads = KEYS } ], value = [
          { type = "linear", name = "v", features = WIDTH, bias = false } ] },
      { type = "linear", name = "o", features = 16, bias = false } ] },
    { type = "residual", prefix = false, layers = [
      { type = "layer_norm", name = "between", bias = false },
      { type = "gated", prefix = false, gate = [
          { type = "linear", name = "gate", features = 24, bias = false } ], up = [
          { type = "linear", name = "up", features = 24, bias = false } ] },
      { type = "dropout", probability = 0.1 },
      { type = "linear", name = "down", features = 16, bias = false } ] },
  ] },
  { type = "rms_norm", name = "norm" },
  { type = "auxiliary_head", target = "positions", loss_weight = 0.3, layers = [ { type = "linear", name = "place", features = 12 } ] },
  { type = "linear", name = "head", features = 9, bias = false },
]
[training]
global_batch_size = 8
dtype = "float64"
[optimizer]
lr = 0.1
[device]
backend = "reference"
tune = "off"
[comm]
timeout_s = 60
[dataset]
format = "text"
tokenizer = "char"
separator = "c"
path = ")";

// The small Llama with so many heads of keys, on the text of a file.
inline std::string small_llama(const GptFile& text, int key_heads) {
  std::string toml = kSmallLlama;
  const auto replace = [&](const std::string& what, int number) {
    for (size_t at; (at = toml.find(what)) != std::string::npos;)
      toml.replace(at, what.size(), std::to_string(number));
  };
  replace("KEYS", key_heads);
  replace("WIDTH", 4 * key_heads);
  return toml + text.path() + "\"\n";
}

}  // namespace runtime::train

#endif  // TESTS_RUNTIME_TRAIN_LLAMA_NET_H_
