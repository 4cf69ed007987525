// Declares the keys of [training], [optimizer] and [lr_scheduler].
#include "runtime/config/declare.h"

namespace runtime::config {

namespace {

// The keys of [training] about the loss.
std::vector<KeyOf<Training>> keys_of_loss() {
  return {
      key("loss", &Training::loss,
          "\"auto\": cross_entropy for classification, mean_squared_error for regression, for "
          "which there are all the others too. binary_cross_entropy: of sigmoid(output) to "
          "targets from 0 to 1; kl_divergence: of softmax(output) from targets that sum to 1; "
          "both expect outputs without sigmoid or softmax, as cross_entropy does")
          .one_of({"auto", "cross_entropy", "mean_squared_error", "mean_absolute_error", "huber",
                   "binary_cross_entropy", "kl_divergence"}),
      key("label_smoothing", &Training::label_smoothing,
          "cross_entropy: the target has this probability spread evenly over all classes, and the "
          "label has the rest; in validations too")
          .in(from_zero_to_below(1)),
      key("class_weights", &Training::class_weights,
          "cross_entropy: the weight of each class in the mean loss, which is divided by the sum "
          "of the weights of the labels, as in PyTorch; in validations too. []: all 1")
          .in(above_zero())
          .at_most(1 << 20),
      key("ignore_label", &Training::ignore_label,
          "cross_entropy of language models: a token, for example padding, that counts neither in "
          "the loss nor in metrics of a validation where it is the label; -1: none")
          .in(at_least(-1, 16777216)),
      key("huber_delta", &Training::huber_delta,
          "huber: the size of a difference from which the loss grows linearly")
          .in(above_zero())};
}

}  // namespace

Section training() {
  std::vector<KeyOf<Training>> keys = {
      key("global_batch_size", &Training::global_batch_size,
          "samples in a step, of all ranks together; or batch_size_per_rank")
          .in(at_least(1, 16777216)),
      key("batch_size_per_rank", &Training::batch_size_per_rank,
          "samples in a step of each rank: the global batch grows with the ranks; see "
          "lr_scheduler.scale_with_batch")
          .in(at_least(1, 16777216)),
      key("micro_batch_size", &Training::micro_batch_size,
          "samples that a rank computes at once; a larger share of a batch is cut, and gradients "
          "are added up; \"auto\": the whole share")
          .as(Type::kIntegerOrAuto)
          .in(at_least(0, 16777216)),
      key("epochs", &Training::epochs,
          "passes over the training samples; or steps; without both, 1 epoch")
          .in(at_least(0, kMaxCount)),
      key("steps", &Training::steps, "number of steps, instead of epochs")
          .in(at_least(0, kMaxCount)),
      key("dtype", &Training::dtype,
          "type of weights and activations; float64 where the device has it")
          .one_of({"float32", "float64"}),
      key("mixed_precision", &Training::mixed_precision,
          "type of activations and of what matmul, convolution and attention read; weights, their "
          "updates, normalisation statistics and the loss stay float32. f16 scales the loss and "
          "leaves out steps that overflow, as PyTorch's GradScaler does")
          .one_of({"none", "bf16", "f16"}),
      key("max_norm", &Training::max_norm,
          "gradients with a larger global norm are scaled down to it; 0: never")
          .in(at_least(0)),
      key("max_value", &Training::max_value,
          "each number of the gradient is kept between -max_value and max_value; 0: as it is")
          .in(at_least(0)),
      key("recompute", &Training::recompute,
          "\"blocks\": what is inside a residual or a repeated block, unless prefix = false "
          "there, is computed again for the backward pass instead of being kept: less memory, "
          "about a third more work, the same results")
          .one_of({"none", "blocks"})};
  for (KeyOf<Training>& k : keys_of_loss()) keys.push_back(std::move(k));
  return section("training", &Config::training, "How long, in which steps and on which loss.",
                 std::move(keys));
}

namespace {

// The keys of an UpdateRule, for a section or a table that is one.
template <class S>
std::vector<KeyOf<S>> keys_of_rule() {
  std::vector<KeyOf<UpdateRule>> keys = {
      key("name", &UpdateRule::name,
          "the rule, as in PyTorch; lion as in its paper; "
          "\"<plugin>.<name>\" is one that a plugin brings, whose keys are in "
          "[optimizer.<plugin>]")
          .one_of({"sgd", "adam", "adamw", "rmsprop", "adagrad", "lion"})
          .or_of_plugin(),
      key("lr", &UpdateRule::lr, "learning rate before the schedule").in(at_least(0)),
      key("momentum", &UpdateRule::momentum, "sgd, rmsprop: momentum").in(from_zero_to_below(1)),
      key("dampening", &UpdateRule::dampening,
          "sgd with momentum: the momentum gets (1 - dampening) * gradient from the second step on")
          .in(at_least(0, 1)),
      key("nesterov", &UpdateRule::nesterov, "sgd: Nesterov's momentum"),
      key("betas", &UpdateRule::betas,
          "adam, adamw: decay of the first and the second moment, [0.9, 0.999] if empty; lion: "
          "weight of the momentum in the update, and its decay, [0.9, 0.99] if empty")
          .in(from_zero_to_below(1))
          .at_most(2),
      key("eps", &UpdateRule::eps,
          "adam, adamw, rmsprop, adagrad: added to the root in the denominator; 0: 1e-8, with "
          "adagrad 1e-10")
          .in(at_least(0)),
      key("alpha", &UpdateRule::alpha, "rmsprop: decay of the mean square")
          .in(from_zero_to_below(1)),
      key("centered", &UpdateRule::centered,
          "rmsprop: the square of the mean gradient is subtracted from the mean square"),
      key("initial_accumulator", &UpdateRule::initial_accumulator,
          "adagrad: value with which the sum of squares begins")
          .in(at_least(0)),
      key("weight_decay", &UpdateRule::weight_decay,
          "sgd, adam, rmsprop, adagrad: adds weight_decay * w to the gradient; adamw, lion: "
          "decoupled")
          .in(at_least(0)),
      key("weight_decay_on", &UpdateRule::weight_decay_on,
          "\"matrices\": parameters of two or more dimensions only, so neither biases nor "
          "normalisations")
          .one_of({"all", "matrices"})};
  std::vector<KeyOf<S>> all;
  for (KeyOf<UpdateRule>& k : keys) {
    KeyOf<S> made;
    made.declared = std::move(k.declared);
    made.field = std::move(k.field);
    all.push_back(std::move(made));
  }
  return all;
}

std::vector<Key> declared(const std::vector<KeyOf<OptimizerGroup>>& keys) {
  std::vector<Key> all;
  OptimizerGroup defaults;
  for (const KeyOf<OptimizerGroup>& k : keys) {
    all.push_back(k.declared);
    if (!k.declared.required) all.back().default_text = "as in [optimizer]";
  }
  return all;
}

}  // namespace

const std::vector<KeyOf<OptimizerGroup>>& optimizer_group_keys() {
  static const std::vector<KeyOf<OptimizerGroup>> keys = [] {
    std::vector<KeyOf<OptimizerGroup>> all = {
        key("parameters", &OptimizerGroup::parameters,
            "patterns of the names of the group's parameters, * and ? as in a shell")
            .required()};
    for (KeyOf<OptimizerGroup>& k : keys_of_rule<OptimizerGroup>()) all.push_back(std::move(k));
    return all;
  }();
  return keys;
}

Section optimizer() {
  std::vector<KeyOf<Optimizer>> keys = keys_of_rule<Optimizer>();
  keys.push_back(
      key("average_decay", &Optimizer::average_decay,
          "keeps a moving average of the weights, average_decay * average + (1 - average_decay) * "
          "weights after each step, which begins with the initial weights; validations have it in "
          "place of the weights, and the run ends with average.safetensors, too. 0: none")
          .in(from_zero_to_below(1)));
  KeyOf<Optimizer> groups =
      key("group", &Optimizer::groups,
          "tables [[optimizer.group]], each for the parameters that its patterns match and no "
          "earlier group has; a key that a table leaves out is as in [optimizer], or has its "
          "default where the table names another rule and the key is neither lr nor weight decay. "
          "The schedule multiplies every lr by the same factor");
  groups.declared.item_keys = declared(optimizer_group_keys());
  keys.push_back(std::move(groups));
  return section("optimizer", &Config::optimizer,
                 "The update of the weights. A table [optimizer.<plugin>] holds the keys of that "
                 "plugin's own optimizers.",
                 std::move(keys));
}

namespace {

// The keys of [lr_scheduler] that belong to one schedule only.
std::vector<KeyOf<LrScheduler>> keys_of_one_schedule() {
  return {
      key("period_steps", &LrScheduler::period_steps,
          "cosine_restarts: steps of the first period, in which the rate falls as with cosine")
          .in(at_least(0, kMaxCount)),
      key("period_factor", &LrScheduler::period_factor,
          "cosine_restarts: a period is so many times as long as the one before")
          .in(at_least(1, 1000)),
      key("power", &LrScheduler::power, "polynomial: the exponent").in(above_zero()),
      key("warmup_share", &LrScheduler::warmup_share,
          "one_cycle: share of the steps in which the rate rises to lr; then it falls, both as a "
          "half cosine")
          .in({.minimum = 0, .maximum = 1}),
      key("first_factor", &LrScheduler::first_factor,
          "one_cycle: the first rate divided by lr (1 / div_factor in PyTorch)")
          .in({.minimum = 0, .maximum = 1, .open_minimum = true}),
      key("last_factor", &LrScheduler::last_factor,
          "one_cycle: the last rate divided by lr (1 / (div_factor * final_div_factor) in "
          "PyTorch)")
          .in(at_least(0, 1)),
      key("stable_steps", &LrScheduler::stable_steps,
          "warmup_stable_decay: steps at lr between warm-up and decay, which ends with "
          "decay_steps")
          .in(at_least(0, kMaxCount)),
      key("decay", &LrScheduler::decay, "warmup_stable_decay: the form of the decay")
          .one_of({"cosine", "linear"}),
      key("patience", &LrScheduler::patience,
          "plateau: the rate is multiplied by gamma after more than so many validations without "
          "improvement of validation.monitor")
          .in(at_least(0, kMaxCount)),
      key("threshold", &LrScheduler::threshold, "plateau: relative change that is an improvement")
          .in(at_least(0, 1)),
      key("cooldown", &LrScheduler::cooldown,
          "plateau: validations after a decay that are not counted")
          .in(at_least(0, kMaxCount))};
}

}  // namespace

Section lr_scheduler() {
  std::vector<KeyOf<LrScheduler>> keys = {
      key("name", &LrScheduler::name,
          "the factor f below, with which step s (from 0) in epoch e (from 0) has the rate "
          "max(min_lr, lr * f); p = (s - warmup_steps) / (decay_steps - warmup_steps), within "
          "0..1")
          .one_of({"constant", "step", "multi_step", "exponential", "cosine", "cosine_restarts",
                   "linear", "polynomial", "one_cycle", "warmup_stable_decay", "plateau"}),
      key("step_size", &LrScheduler::step_size,
          "step: epochs between two decays, f = gamma^floor(e / step_size)")
          .in(at_least(1, kMaxCount)),
      key("milestones", &LrScheduler::milestones,
          "multi_step: epochs of the decays, f = gamma^(how many are <= e)")
          .in(at_least(1, kMaxCount)),
      key("gamma", &LrScheduler::gamma,
          "step, multi_step, plateau: factor of a decay; exponential: f = gamma^e, or "
          "gamma^(s / decay_steps), which may grow: gamma above 1")
          .in({.minimum = 0, .open_minimum = true}),
      key("decay_steps", &LrScheduler::decay_steps,
          "cosine: rate min_lr + (lr - min_lr) * (1 + cos(pi * p)) / 2; linear: lr + (min_lr - "
          "lr) * p; polynomial: min_lr + (lr - min_lr) * (1 - p)^power; so min_lr from step "
          "decay_steps on, which is also the length of one_cycle. 0: all steps of the run. "
          "exponential: steps in which the rate is multiplied by gamma; 0: an epoch")
          .in(at_least(0, kMaxCount)),
      key("min_lr", &LrScheduler::min_lr, "the rate does not fall below it; at most optimizer.lr")
          .in(at_least(0)),
      key("warmup_steps", &LrScheduler::warmup_steps,
          "during the first so many steps the rate is multiplied by (s + 1) / warmup_steps")
          .in(at_least(0, kMaxCount)),
      key("scale_with_batch", &LrScheduler::scale_with_batch,
          "multiplies the rate by global batch / reference_batch_size, or by its square root")
          .one_of({"none", "linear", "sqrt"}),
      key("reference_batch_size", &LrScheduler::reference_batch_size,
          "global batch for which optimizer.lr was chosen; scale_with_batch needs it")
          .in(at_least(0, 16777216))};
  for (KeyOf<LrScheduler>& k : keys_of_one_schedule()) keys.push_back(std::move(k));
  return section("lr_scheduler", &Config::lr_scheduler, "The learning rate over time.",
                 std::move(keys));
}

}  // namespace runtime::config
