// Builds the whole graph of a step: model, loss, gradients, optimizer.
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

// The name of the loss-scaling buffer of a step with float16 activations; see StepGraph.
inline constexpr const char* kLossScaling = "loss_scaling";

// What a step is for.
enum class Purpose {
  kTraining,   // forward, backward, update
  kMicroStep,  // forward, backward: one of several steps whose gradients are accumulated
  kGradients,  // forward, backward; gradients and output stay readable
  // Forward in inference mode, loss, number of correct predictions; output stays readable.
  kEvaluation,
};

// What a step graph depends on besides the model.
struct StepOptions {
  Purpose purpose = Purpose::kTraining;
  int64_t batch = 1;
  rt_dtype dtype = RT_FLOAT32;
  rt_dtype activations = 0;            // float16 or bfloat16 beside float32; 0: the same as dtype
  std::string loss = "cross_entropy";  // or "mean_squared_error"
  int64_t targets = 0;                 // regression: numbers in a sample's target
  config::Optimizer optimizer;
  double max_norm = 0;
  uint64_t seed = 0;
  std::vector<std::string> freeze;  // patterns of parameter names, * and ? as in a shell
  parallel::FlatLayoutOptions flat;
  bool split_batch_norm = false;  // see model::NetworkOptions
  ModelParallel model_parallel = {};
  // Fraction of the penalty that this step adds; over all steps and ranks it sums to 1.
  double l2_share = 1;
};

// A step's graph and its named values. The caller writes the kInput values before a step and reads
// the kOutput values after it; kNone where the step has none.
//
// All trained parameters lie in one persistent buffer "parameters", and their gradients at the same
// offsets in "gradients", so that the optimizer is one launch and buckets are byte ranges.
// Optimizer state: "momentum", or "adam_m" and "adam_v".
//
// With float16 activations the gradient of the loss is a scale instead of 1, and the update divides
// by it; the scale is kept in "loss_scaling", see loss_scale in plugins/operations.md.
struct StepGraph {
  graph::Graph graph;
  graph::ValueId features = graph::kNone;
  graph::ValueId target = graph::kNone;  // labels int32 [N] or [N, T], or targets [N, D]
  // [N] or [N, T], see plugins/operations.md, "Softmax and losses".
  graph::ValueId weight = graph::kNone;
  graph::ValueId loss = graph::kNone;     // [1]
  graph::ValueId correct = graph::kNone;  // [1], only in an evaluation of a classification
  graph::ValueId output = graph::kNone;
  int64_t predictions = 0;                      // last dimension of the output of the whole model
  graph::ValueId learning_rate = graph::kNone;  // [1]
  graph::ValueId step = graph::kNone;           // int64 [1], counts from 1; for AdamW
  graph::ValueId dropout_step = graph::kNone;   // int64 [1]
  graph::ValueId sample_base = graph::kNone;    // int64 [1]
  graph::ValueId one = graph::kNone;            // persistent [1] that must hold 1
  graph::ValueId loss_scaling = graph::kNone;   // persistent [3], with float16 only
  // Views into "parameters" or "frozen"; running statistics lie in values of their own.
  std::vector<model::Parameter> parameters;
  std::vector<graph::ValueId> gradients;  // by parameter; kNone: not trained
  std::vector<std::string> blocks;        // this and the next two: see model::Network
  std::map<std::string, int> stages;
  std::map<std::string, std::string> shards;
  parallel::StepBuffers buffers;
  // With model parallelism, these are this rank's tensor-parallel slice of each parameter (empty:
  // the rank has the whole parameters) and its place in the pipeline.
  std::vector<parallel::ShardedParameter> sharded;
  std::optional<parallel::Pipeline> pipeline;
  std::vector<std::string> notes;  // lines for the log

  // The dims of a parameter in the whole model.
  graph::Dims whole_dims(graph::ValueId parameter) const;
};

// Throws ConfigurationError if the configuration does not fit the model or the mesh.
StepGraph build_step(const model::Model& model, const StepOptions& options);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_STEP_GRAPH_H_
