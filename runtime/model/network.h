// Layers -> graph of operations, with what is known of each parameter.
#ifndef RUNTIME_MODEL_NETWORK_H_
#define RUNTIME_MODEL_NETWORK_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/model/layer.h"

namespace runtime::model {

// A trained parameter or a running statistic. The canonical tensor is what kernels see; files have
// PyTorch's layout: view the canonical tensor as `view`, permute its axes by `permutation`, reshape
// to `file_dims`.
struct Parameter {
  std::string name;  // PyTorch's: "conv1.weight"
  graph::ValueId value = graph::kNone;
  graph::Dims view;
  std::vector<int> permutation;
  graph::Dims file_dims;
  Init init;
  int64_t fan_in = 0, fan_out = 0;  // 0: a vector initialised to a constant (`init` says which)
  bool trainable = true;            // false: a running statistic
  double l2 = 0;
};

struct NetworkOptions {
  int64_t batch = 1;
  rt_dtype dtype = RT_FLOAT32;
  bool training = true;  // false: no dropout, batch norm by running statistics
  uint64_t seed = 0;     // of dropout
  // Training: batch norm in parts, which leaves out padded rows and can span ranks.
  bool split_batch_norm = false;
};

// The forward pass in a graph. Values that the caller provides: `features` (kInput) and, if
// training with dropout, `step` and `sample_base` (kInput, int64 [1]), with split batch norm
// `weight` (kInput, [batch], see plugins/operations.md, "Softmax and losses").
struct Network {
  graph::Graph graph;
  graph::ValueId features = graph::kNone;  // [N, H, W, C], [N, D] or tokens [N, L]
  graph::ValueId output = graph::kNone;    // logits or predictions
  graph::ValueId step = graph::kNone;      // kNone: no layer needs it
  graph::ValueId sample_base = graph::kNone;
  graph::ValueId weight = graph::kNone;
  std::vector<Parameter> parameters;  // in the order of the layers
  // Residuals and repeated blocks that lie in no other: their nodes' layers are <name> or <name>.*
  std::vector<std::string> blocks;
  // By Node::layer, where the model says it: pipeline stages, and splits over tensor ranks as
  // Layer::shard has them.
  std::map<std::string, int> stages;
  std::map<std::string, std::string> shards;
};

// Throws ConfigurationError naming the layer, its input shape and what it needs.
Network build_network(const Model& model, const NetworkOptions& options);

}  // namespace runtime::model

#endif  // RUNTIME_MODEL_NETWORK_H_
