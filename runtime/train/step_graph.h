// The whole graph of a step: model, loss, gradients, optimizer.
#ifndef RUNTIME_TRAIN_STEP_GRAPH_H_
#define RUNTIME_TRAIN_STEP_GRAPH_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/data/dataset.h"
#include "runtime/model/network.h"
#include "runtime/parallel/distribute.h"
#include "runtime/parallel/shard.h"
#include "runtime/train/model_parallel.h"

namespace runtime::train {

// Name of the buffer that a step with float16 activations keeps, see StepGraph.
inline constexpr const char* kLossScaling = "loss_scaling";

// What a step is for.
enum class Purpose {
  kTraining,    // forward, backward, update
  kMicroStep,   // forward, backward: one of several whose gradients are added up
  kGradients,   // forward, backward; gradients and output are kept for reading
  kEvaluation,  // forward in inference mode, loss, number of correct answers; output is kept
};

struct StepOptions {
  Purpose purpose = Purpose::kTraining;
  int64_t batch = 1;
  rt_dtype dtype = RT_FLOAT32;
  rt_dtype activations = 0;            // float16 or bfloat16 beside float32; 0: as dtype
  std::string loss = "cross_entropy";  // or "mean_squared_error"
  int64_t targets = 0;                 // regression: numbers a sample
  config::Optimizer optimizer;
  double max_norm = 0;
  uint64_t seed = 0;
  std::vector<std::string> freeze;  // patterns of parameter names, * and ? as in a shell
  parallel::FlatLayoutOptions flat;
  bool split_batch_norm = false;  // see model::NetworkOptions
  ModelParallel model_parallel = {};
  double l2_share = 1;  // part of the penalty that this step adds: over all steps and ranks it is 1
};

// Values that the caller writes before a step (kInput) and reads after it (kOutput). kNone where a
// step has none.
//
// All trained parameters lie in one persistent buffer "parameters" and their gradients, in the same
// places, in "gradients", so that the optimizer is one launch and buckets are ranges. Optimizer
// state: "momentum", or "adam_m" and "adam_v".
//
// With float16 activations the gradient of the loss begins with a scale instead of 1 and is scaled
// back by the update; both are in "loss_scaling", see loss_scale in plugins/operations.md.
struct StepGraph {
  graph::Graph graph;
  graph::ValueId features = graph::kNone;
  graph::ValueId target = graph::kNone;  // labels int32 [N] or [N, T], or targets [N, D]
  // [N] or [N, T], see plugins/operations.md, "Softmax and losses"
  graph::ValueId weight = graph::kNone;
  graph::ValueId loss = graph::kNone;     // [1]
  graph::ValueId correct = graph::kNone;  // [1], evaluation of a classification
  graph::ValueId output = graph::kNone;
  int64_t predictions = 0;                      // last dimension of the output of the whole model
  graph::ValueId learning_rate = graph::kNone;  // [1]
  graph::ValueId step = graph::kNone;           // int64 [1], from 1 for adamw
  graph::ValueId dropout_step = graph::kNone;   // int64 [1]
  graph::ValueId sample_base = graph::kNone;    // int64 [1]
  graph::ValueId one = graph::kNone;            // persistent [1] that must hold 1
  graph::ValueId loss_scaling = graph::kNone;   // persistent [3], with float16 only
  std::vector<model::Parameter>
      parameters;  // views into "parameters" or "frozen", or statistics of their own
  std::vector<graph::ValueId> gradients;  // by parameter; kNone: not trained
  std::vector<std::string> blocks;        // these three: see model::Network
  std::map<std::string, int> stages;
  std::map<std::string, std::string> shards;
  parallel::StepBuffers buffers;
  // Of a part of the model: what this rank has of each parameter (empty: the whole), and its place
  // in a pipeline.
  std::vector<parallel::ShardedParameter> sharded;
  std::optional<parallel::Pipeline> pipeline;
  std::vector<std::string> notes;  // for the log

  // Of a parameter of the whole model.
  graph::Dims whole_dims(graph::ValueId parameter) const;
};

StepGraph build_step(const model::Model& model, const StepOptions& options);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_STEP_GRAPH_H_
