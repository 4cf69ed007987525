// Declares the keys of [training], [optimizer] and [lr_scheduler].
#include "runtime/config/keys_of_choices.h"

namespace runtime::config {

namespace {

// The keys of [training] about the loss.
std::vector<KeyOf<Training>> keys_of_loss() {
  std::vector<std::string> names = {"auto"};
  std::string documentation;
  for (const Loss& loss : losses()) {
    names.push_back(loss.name);
    if (!loss.documentation.empty()) documentation += loss.name + ": " + loss.documentation + "; ";
  }
  std::vector<KeyOf<Training>> keys = {
      key("loss", &Training::loss,
          "\"auto\": " + loss_of("auto", true).name + " for classification, " +
              loss_of("auto", false).name +
              " for regression, for which there are all the others too. " + documentation +
              "those of probabilities expect outputs without sigmoid or softmax, as cross_entropy "
              "does")
          .one_of(std::move(names))};
  for (KeyOf<Training>& k : keys_of_choices(losses())) keys.push_back(std::move(k));
  keys.push_back(key("sample_weights", &Training::sample_weights,
                     "named input of the samples with the weight of each sample, or of each of its "
                     "labels, in the mean loss, which is divided by the sum of the weights; in "
                     "validations too. Metrics leave out what has the weight 0; \"\": all are 1"));
  return keys;
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
          .one_of(names_of_rows(optimizers()))
          .or_of_plugin(),
      key("lr", &UpdateRule::lr, "learning rate before the schedule").in(at_least(0))};
  for (KeyOf<UpdateRule>& k : keys_of_choices(optimizers())) keys.push_back(std::move(k));
  std::vector<KeyUse> decays;
  for (const OptimizerRow& row : optimizers())
    decays.push_back(
        {row.name, row.decoupled ? "decoupled" : "adds weight_decay * w to the gradient"});
  keys.push_back(key("weight_decay", &UpdateRule::weight_decay, join_uses(decays)).in(at_least(0)));
  keys.push_back(key("weight_decay_on", &UpdateRule::weight_decay_on,
                     "\"matrices\": parameters of two or more dimensions only, so neither biases "
                     "nor normalisations")
                     .one_of({"all", "matrices"}));
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
  for (const KeyOf<OptimizerGroup>& k : keys) {
    all.push_back(k.declared);
    if (!k.declared.required) all.back().default_text = "as in [optimizer]";
  }
  return all;
}

std::vector<KeyOf<OptimizerGroup>> keys_of_a_group() {
  std::vector<KeyOf<OptimizerGroup>> all = {
      key("parameters", &OptimizerGroup::parameters,
          "patterns of the names of the group's parameters, * and ? as in a shell")
          .required()};
  for (KeyOf<OptimizerGroup>& k : keys_of_rule<OptimizerGroup>()) all.push_back(std::move(k));
  return all;
}

}  // namespace

const std::vector<KeyOf<OptimizerGroup>>& keys_of_tables(const OptimizerGroup*) {
  static const std::vector<KeyOf<OptimizerGroup>>& keys =
      *new std::vector<KeyOf<OptimizerGroup>>(keys_of_a_group());
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
  groups.declared.item_keys = declared(keys_of_a_group());
  keys.push_back(std::move(groups));
  return section("optimizer", &Config::optimizer,
                 "The update of the weights. A table [optimizer.<plugin>] holds the keys of that "
                 "plugin's own optimizers.",
                 std::move(keys));
}

Section lr_scheduler() {
  std::vector<KeyOf<LrScheduler>> keys = {
      key("name", &LrScheduler::name,
          "the factor f below, with which step s (from 0) in epoch e (from 0) has the rate "
          "max(min_lr, lr * f); p = (s - warmup_steps) / (decay_steps - warmup_steps), within "
          "0..1, where 0 decay_steps are all steps of the run; from decay_steps on the rate is "
          "min_lr")
          .one_of(names_of_rows(schedules())),
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
  for (KeyOf<LrScheduler>& k : keys_of_choices(schedules())) keys.push_back(std::move(k));
  return section("lr_scheduler", &Config::lr_scheduler, "The learning rate over time.",
                 std::move(keys));
}

}  // namespace runtime::config
