// The forward graph of a model, with what is known about each parameter.
#ifndef RUNTIME_MODEL_NETWORK_H_
#define RUNTIME_MODEL_NETWORK_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/model/key_value_cache.h"
#include "runtime/model/layer.h"

namespace runtime::model {

// A trained parameter or a running statistic. Kernels use the canonical layout, files the layout of
// PyTorch: the canonical tensor is viewed as `view`, its axes are permuted by `permutation`, and
// the result is reshaped to `file_dims`.
struct Parameter {
  std::string name;  // as in PyTorch: "conv1.weight"
  graph::ValueId value = graph::kNone;
  graph::Dims view;
  std::vector<int> permutation;
  graph::Dims file_dims;
  Init init;
  int64_t fan_in = 0, fan_out = 0;  // 0: a vector that is initialised to a constant, as `init` says
  bool trainable = true;            // false for a running statistic
  double l2 = 0;                    // adds l2 * sum(w^2) to the loss
};

// How the graph is built.
struct NetworkOptions {
  int64_t batch = 1;  // the size of the batch dimension of the graph
  rt_dtype dtype = RT_FLOAT32;
  bool training = true;  // false: no dropout, and batch norm uses running statistics
  uint64_t seed = 0;     // of dropout
  // In training, batch norm is built as several operations, so that it leaves out padded rows and
  // can reduce its sums over ranks.
  bool split_batch_norm = false;
  // Other than kNone only for a batch of 1, without training, if can_extend(). With kExtend the
  // features are one token, [1, 1].
  CacheUse cache = CacheUse::kNone;
};

// A named input of the samples in a graph.
struct NamedInput {
  std::string name;
  graph::ValueId value = graph::kNone;  // kInput, [N, ...], int32 or of the type of the features
};

// The result of an auxiliary head and what it is compared with.
struct HeadOutput {
  std::string layer;
  graph::ValueId output = graph::kNone;  // [N, D] or [N, .., C]
  // Labels [N] or [N, ..], or numbers [N, D]; outside training an input that nobody writes.
  graph::ValueId target = graph::kNone;
  std::string loss;   // a row of config::losses()
  double weight = 1;  // factor of the loss
};

// The forward pass as a graph. The caller provides the values `features` (kInput), `inputs` and,
// where they are not kNone, `step` and `sample_base` (kInput, int64 [1]), which dropout reads in
// training, and `real` (kInput, [batch]: 1 for a sample, 0 for padding), which split batch norm
// reads.
struct Network {
  graph::Graph graph;
  graph::ValueId features = graph::kNone;  // [N, H, W, C], [N, D] or token ids [N, L]
  std::vector<NamedInput> inputs;          // with different names
  graph::ValueId output = graph::kNone;    // logits or predictions
  std::vector<HeadOutput> heads;           // none where a text is continued
  graph::ValueId step = graph::kNone;      // kNone if no layer needs it
  graph::ValueId sample_base = graph::kNone;
  graph::ValueId real = graph::kNone;
  std::vector<Parameter> parameters;  // in the order of the layers
  KeyValueCache cache;                // as NetworkOptions::cache says
  // Names of residuals and repeated blocks that are not inside another one. Node::layer of their
  // nodes is <name> or <name>.*
  std::vector<std::string> blocks;
  // By Node::layer, for layers where the model gives them: pipeline stages, and how weights are
  // split over tensor-parallel ranks (see Layer::shard).
  std::map<std::string, int> stages;
  std::map<std::string, std::string> shards;
};

// Builds the forward graph. Throws ConfigurationError that names the layer, the shape of its input
// and what it needs.
Network build_network(const Model& model, const NetworkOptions& options);

}  // namespace runtime::model

#endif  // RUNTIME_MODEL_NETWORK_H_
