// A training step as a graph with named values: what the passes of compile_step() work on.
#ifndef RUNTIME_STEP_STEP_H_
#define RUNTIME_STEP_STEP_H_

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/model/network.h"
#include "runtime/parallel/distribution.h"
#include "runtime/parallel/shard.h"
#include "runtime/step/optimizer.h"

namespace runtime::step {

// The names of persistent buffers; see StepValues.
inline constexpr const char* kParameters = "parameters";
inline constexpr const char* kFrozen = "frozen";
inline constexpr const char* kGradients = "gradients";
inline constexpr const char* kLossScaling = "loss_scaling";  // of a step with float16 activations

// The purpose of a step decides which passes it has.
enum class Purpose {
  kTraining,   // forward, backward, update
  kMicroStep,  // forward, backward: one of several steps whose gradients are accumulated
  kGradients,  // forward, backward; gradients and output stay readable
  // Forward in inference mode, loss, number of correct predictions; output stays readable.
  kEvaluation,
  // Forward in inference mode of one sample, for a text that is continued; output stays readable.
  kPrompt,  // of a window of tokens, whose keys and values are kept (model/key_value_cache.h)
  kToken,   // of the token behind those that are kept
};

// What makes one step of a run different from another.
struct StepForm {
  Purpose purpose = Purpose::kTraining;
  int64_t rows = 1;  // of each micro-batch or virtual shard
  // Whether batch norm is over several virtual shards or ranks, or has padding to ignore.
  bool split_batch_norm = false;
  bool accumulate = false;  // adds to the gradients of earlier micro-steps
  // Fraction of the L2 penalty that this step adds; over all steps and ranks it sums to 1.
  double l2_share = 1;
  auto operator<=>(const StepForm&) const = default;

  bool backward() const { return purpose < Purpose::kEvaluation; }
  bool update() const { return purpose == Purpose::kTraining; }
};

// The loss, with "auto" resolved, see [training].
struct LossSpec {
  std::string name = "cross_entropy";
  bool of_classes = true;                   // it compares with labels, else with numbers
  double label_smoothing = 0;               // of a loss of classes
  config::AttributeValues attributes = {};  // of its formula
};

// The specification says what a run trains; it is the same for all of its steps and ranks.
struct TrainingSpec {
  LossSpec loss = {};
  // A sample of the data set has `labels` labels of `classes` classes in a classification, or
  // `targets` numbers in a regression.
  int64_t classes = 0, labels = 1, targets = 0;
  // A named input of the samples: dims without the samples.
  struct Input {
    std::string name;
    graph::Dims dims;
    bool integers = false;
    int32_t least = 0, most = 0;  // integers: the smallest and the largest
  };
  std::vector<Input> inputs = {};
  int64_t vocabulary = 0;  // > 0: features are token ids below it
  config::Optimizer optimizer = {};
  double max_norm = 0;                   // of the whole gradient; 0: not clipped
  double max_value = 0;                  // of each number of the gradient; 0: not clipped
  std::vector<std::string> freeze = {};  // patterns of parameter names, * and ? as in a shell
  uint64_t seed = 0;                     // of dropout
};

// The named values of a step; kNone where the step has none. The caller writes the kInput values
// before a step and reads the kOutput values after it.
//
// All trained parameters lie in one persistent buffer "parameters", and their gradients at the same
// offsets in "gradients", so that the optimizer is one launch and buckets are byte ranges. Where a
// device has a largest buffer, they are cut between buckets (parallel::FlatLayout::cuts).
// The optimizer's state lies in the buffers optimizer_state() at these offsets, too.
//
// With float16 activations the gradient of the loss is a scale instead of 1, and the update divides
// by it; the scale is kept in "loss_scaling", see loss_scale in plugins/operations.md.
struct StepValues {
  graph::ValueId features = graph::kNone;
  std::vector<model::NamedInput> inputs;
  graph::ValueId target = graph::kNone;  // labels int32 [N] or [N, T], or targets [N, D]
  // [N] or [N, T], see plugins/operations.md, "Softmax and losses".
  graph::ValueId weight = graph::kNone;
  // [N], see model::Network. A sample is real even if all of its labels have the weight 0.
  graph::ValueId real = graph::kNone;
  graph::ValueId sample_base = graph::kNone;  // int64 [1]
  // These inputs once for each virtual shard or micro-batch of this rank.
  std::vector<parallel::ShardValues> shards;
  // [1]: this rank's contribution to the mean, in the end the sum over the ranks where the step
  // reduces it.
  graph::ValueId loss = graph::kNone;
  graph::ValueId correct = graph::kNone;  // [1], only in an evaluation of a classification
  graph::ValueId output = graph::kNone;
  std::vector<model::HeadOutput> heads;  // before the step is distributed
  model::KeyValueCache cache;            // of kPrompt and kToken
  int64_t predictions = 0;               // last dimension of the output of the whole model
  UpdateInputs update;
  graph::ValueId dropout_step = graph::kNone;    // int64 [1]
  graph::ValueId one = graph::kNone;             // persistent [1] that must hold 1
  graph::ValueId loss_scaling = graph::kNone;    // persistent [3], with float16 only
  graph::ValueId loss_gradient = graph::kNone;   // [1]: `one`, or the scale in `loss_scaling`
  graph::ValueId gradient_scale = graph::kNone;  // output [1]: of training.max_norm, else kNone
  // Views into "parameters" or "frozen"; running statistics lie in values of their own.
  std::vector<model::Parameter> parameters;
  std::vector<uint64_t> offsets;  // by parameter: bytes into its flat buffer
  // By parameter, before the step is distributed; kNone: not trained, or not on this rank.
  std::vector<graph::ValueId> gradients;
  std::vector<std::string> blocks;  // this and the next two: see model::Network
  std::map<std::string, int> stages;
  std::map<std::string, std::string> shard_hints;
  parallel::StepBuffers buffers;
  // With model parallelism, these are this rank's tensor-parallel slice of each parameter (empty:
  // the rank has the whole parameters) and its place in the pipeline.
  std::vector<parallel::ShardedParameter> sharded;
  std::optional<parallel::Pipeline> pipeline;
  // Values from this one on were added when the step was fitted to its device and its ranks.
  graph::ValueId first_added = graph::kNone;
};

// A step while it is compiled.
struct Step {
  graph::Graph graph;
  StepValues values;
  std::vector<std::string> notes;  // lines for the log
};

}  // namespace runtime::step

#endif  // RUNTIME_STEP_STEP_H_
