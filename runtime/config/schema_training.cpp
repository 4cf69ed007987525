#include "runtime/config/schema_sections.h"

namespace runtime::config {

Section training() {
  return {
      "training",
      "How long, in which steps and on which loss.",
      {integer("global_batch_size", "0", at_least(1, 16777216),
               "samples in a step, of all ranks together; or batch_size_per_rank"),
       integer("batch_size_per_rank", "0", at_least(1, 16777216),
               "samples in a step of each rank: the global batch grows with the ranks; see "
               "lr_scheduler.scale_with_batch"),
       {.name = "micro_batch_size",
        .type = Type::kIntegerOrAuto,
        .default_text = "\"auto\"",
        .range = at_least(0, 16777216),
        .documentation = "samples that a rank computes at once; a larger share of a batch is "
                         "cut, and gradients are added up; \"auto\": the whole share"},
       integer("epochs", "0", at_least(0, kMaxCount),
               "passes over the training samples; or steps; without both, 1 epoch"),
       integer("steps", "0", at_least(0, kMaxCount), "number of steps, instead of epochs"),
       choice("dtype", "\"float32\"", {"float32", "float64"},
              "type of weights and activations; float64 where the device has it"),
       choice("mixed_precision", "\"none\"", {"none", "bf16", "f16"},
              "type of activations and of what matmul, convolution and attention read; weights, "
              "their updates, normalisation statistics and the loss stay float32. f16 scales the "
              "loss and leaves out steps that overflow, as PyTorch's GradScaler does"),
       number("max_norm", "0.0", at_least(0),
              "gradients with a larger global norm are scaled down to it; 0: never"),
       choice("recompute", "\"none\"", {"none", "blocks"},
              "\"blocks\": what is inside a residual or a repeated block, unless prefix = false "
              "there, "
              "is computed again for the backward pass instead of being kept: less memory, about a "
              "third more work, the same results"),
       choice("loss", "\"auto\"", {"auto", "cross_entropy", "mean_squared_error"},
              "\"auto\": cross_entropy for classification, mean_squared_error for regression")}};
}

Section optimizer() {
  return {"optimizer",
          "The update of the weights.",
          {choice("name", "\"sgd\"", {"sgd", "adamw"}, "the rule, as in PyTorch"),
           number("lr", "0.01", at_least(0), "learning rate before the schedule"),
           number("momentum", "0.0", from_zero_to_below(1), "sgd: momentum"),
           flag("nesterov", "false", "sgd: Nesterov's momentum"),
           {.name = "betas",
            .type = Type::kNumbers,
            .default_text = "[0.9, 0.999]",
            .range = from_zero_to_below(1),
            .max_items = 2,
            .documentation = "adamw: decay of the first and the second moment"},
           number("eps", "1e-08", above_zero(), "adamw: added to the root of the second moment"),
           number("weight_decay", "0.0", at_least(0),
                  "sgd: adds weight_decay * w to the gradient; adamw: decoupled"),
           choice("weight_decay_on", "\"all\"", {"all", "matrices"},
                  "\"matrices\": parameters of two or more dimensions only, so neither biases nor "
                  "normalisations")}};
}

Section lr_scheduler() {
  return {
      "lr_scheduler",
      "The learning rate over time.",
      {choice("name", "\"constant\"", {"constant", "step", "multi_step", "cosine", "linear"},
              "the factor f below, with which step s (from 0) in epoch e (from 0) has the rate "
              "max(min_lr, lr * f); p = (s - warmup_steps) / (decay_steps - warmup_steps), within "
              "0..1"),
       integer("step_size", "1", at_least(1, kMaxCount),
               "step: epochs between two decays, f = gamma^floor(e / step_size)"),
       {.name = "milestones",
        .type = Type::kIntegers,
        .default_text = "[]",
        .range = at_least(1, kMaxCount),
        .documentation = "multi_step: epochs of the decays, f = gamma^(how many are <= e)"},
       number("gamma", "0.1", {.minimum = 0, .maximum = 1, .open_minimum = true},
              "step, multi_step: factor of a decay"),
       integer("decay_steps", "0", at_least(0, kMaxCount),
               "cosine: rate min_lr + (lr - min_lr) * (1 + cos(pi * p)) / 2; linear: lr + (min_lr "
               "- lr) * p; so min_lr from step decay_steps on. 0: all steps of the run"),
       number("min_lr", "0.0", at_least(0),
              "the rate does not fall below it; at most optimizer.lr"),
       integer("warmup_steps", "0", at_least(0, kMaxCount),
               "during the first so many steps the rate is multiplied by (s + 1) / warmup_steps"),
       choice("scale_with_batch", "\"none\"", {"none", "linear", "sqrt"},
              "multiplies the rate by global batch / reference_batch_size, or by its square root"),
       integer("reference_batch_size", "0", at_least(0, 16777216),
               "global batch for which optimizer.lr was chosen; scale_with_batch needs it")}};
}

}  // namespace runtime::config
