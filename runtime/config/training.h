// The sections of a configuration that say how a model is trained.
#ifndef RUNTIME_CONFIG_TRAINING_H_
#define RUNTIME_CONFIG_TRAINING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/row_of.h"

namespace runtime::config {

struct OpenOperation;

// [training]: how long, in which steps and on which loss.
struct Training {
  int64_t global_batch_size = 0;    // samples; either this or the next is given
  int64_t batch_size_per_rank = 0;  // samples
  int micro_batch_size = 0;         // samples; "auto": 0, the whole local batch of a rank
  int64_t epochs = 0;               // either epochs or steps; both 0: 1 epoch
  int64_t steps = 0;
  std::string dtype = "float32";         // float32 | float64
  std::string mixed_precision = "none";  // none | bf16 | f16, of activations
  double max_norm = 0;                   // of the whole gradient; 0: no clipping
  double max_value = 0;                  // of each number of the gradient; 0: no clipping
  std::string recompute = "none";        // none | blocks
  std::string loss = "auto";             // or a row of losses()
  double label_smoothing = 0;            // cross_entropy
  std::vector<double> class_weights;     // cross_entropy; empty: all 1
  int64_t ignore_label = -1;             // cross_entropy of tokens; -1: none
  std::string sample_weights;            // a named input of the samples; empty: all are 1
  double huber_delta = 1;                // huber

  // Whether activations have another type than weights, and whether that type needs a scaled loss.
  bool mixed() const {
    return row_of<bool>("training.mixed_precision", mixed_precision,
                        {{"none", false}, {"bf16", true}, {"f16", true}});
  }
  bool scales_loss() const {
    return row_of<bool>("training.mixed_precision", mixed_precision,
                        {{"none", false}, {"bf16", false}, {"f16", true}});
  }
  // Bytes of a weight.
  int bytes_per_weight() const {
    return row_of<int>("training.dtype", dtype, {{"float32", 4}, {"float64", 8}});
  }
};

// The update of the weights of some parameters.
struct UpdateRule {
  std::string name = "sgd";  // a row of optimizers(), or a plugin's
  double lr = 0.01;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  std::vector<double> betas;  // empty: as the authors of the rule have it, see optimizers.cpp
  double eps = 0;             // the same where it is 0
  double alpha = 0.99;
  bool centered = false;
  double initial_accumulator = 0;
  double weight_decay = 0;
  std::string weight_decay_on = "all";  // all | matrices
  // These two describe the rule that a plugin brings: the operation, and the values of
  // [optimizer.<plugin>]. They are null and empty for the rules of the runtime.
  std::shared_ptr<const OpenOperation> operation = {};
  std::map<std::string, std::variant<int64_t, double>> attributes = {};
  bool operator==(const UpdateRule&) const = default;
};

// [[optimizer.group]]: parameters with an update of their own. Equivalent to: a parameter group of
// PyTorch's optimizers, which can have another rule as well.
struct OptimizerGroup : UpdateRule {
  std::vector<std::string> parameters;  // patterns of names
  bool operator==(const OptimizerGroup&) const = default;
};

// [optimizer]: the update of the weights.
struct Optimizer : UpdateRule {
  double average_decay = 0;            // of the moving average of the weights; 0: none
  std::vector<OptimizerGroup> groups;  // of the groups that match a parameter, the first counts
};

// [lr_scheduler]: the learning rate over time.
struct LrScheduler {
  std::string name = "constant";    // a row of schedules()
  int64_t step_size = 1;            // step: epochs between decays
  std::vector<int64_t> milestones;  // multi_step: epochs of the decays
  double gamma = 0.1;
  int64_t decay_steps = 0;    // step at which min_lr is reached; 0: the last step
  int64_t period_steps = 0;   // cosine_restarts: steps of the first period
  int64_t period_factor = 1;  // cosine_restarts: length of a period to that before
  double power = 1;           // polynomial
  double warmup_share = 0.3;  // one_cycle: of the steps
  double first_factor = 0.04, last_factor = 4e-6;  // one_cycle: first and last rate to the highest
  int64_t stable_steps = 0;                        // warmup_stable_decay
  std::string decay = "cosine";                    // warmup_stable_decay: cosine | linear
  int64_t patience = 10;                           // plateau: validations
  double threshold = 1e-4;                         // plateau: relative
  int64_t cooldown = 0;                            // plateau: validations
  double min_lr = 0;
  int64_t warmup_steps = 0;
  std::string scale_with_batch = "none";  // none | linear | sqrt
  int64_t reference_batch_size = 0;
};

// [validation]: when the validation samples are evaluated.
struct Validation {
  int64_t every_epochs = 1;          // 0: not at the ends of epochs
  int64_t every_steps = 0;           // 0: not by steps
  std::vector<std::string> metrics;  // names of metrics.h, besides loss and accuracy
  std::string monitor = "loss";      // loss | accuracy | one of `metrics`
};

// [early_stopping]: when the validation no longer gets better.
struct EarlyStopping {
  int64_t patience = 0;  // validations; 0: never
  double min_delta = 0;
  bool restore_best = false;  // the run ends with the weights of the best checkpoint
};

// [checkpoint]: when the run is saved so that it can go on later, and where it goes on.
struct Checkpoint {
  int64_t interval_steps = 0;    // 0: not by steps
  int64_t interval_epochs = 0;   // 0: not by epochs
  double interval_minutes = 10;  // 0: not by time
  int64_t keep_latest = 2;       // 0: all
  int64_t keep_best = 0;
  std::string resume;  // "": a new run; "auto": the newest checkpoint; or a path
  bool resumes_newest() const { return resume == "auto"; }

  // Whether the run is saved at all.
  bool any() const {
    return interval_steps > 0 || interval_epochs > 0 || interval_minutes > 0 || keep_best > 0;
  }
};

// [profiling]: which steps are measured operation by operation. Equivalent to:
// torch.profiler.schedule.
struct Profiling {
  bool enabled = false;
  int64_t wait = 10;                   // steps that a cycle begins with and that are not recorded
  int64_t warmup = 2;                  // recorded, but not reported
  int64_t active = 10;                 // recorded and reported
  int64_t repeat = 1;                  // cycles
  double memory_gbps = 0, gflops = 0;  // limits of the device; 0: measured
};

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_TRAINING_H_
