// The losses. A row with a formula is all that there is of a loss; those without one are operations
// of the contract.
#include <algorithm>

#include "runtime/config/choices.h"

namespace runtime::config {

namespace {

std::vector<KeyOf<Training>> keys_of_cross_entropy() {
  return {key("label_smoothing", &Training::label_smoothing,
              "the target has this probability spread evenly over all classes, and the label has "
              "the rest; in validations too")
              .in(from_zero_to_below(1)),
          key("class_weights", &Training::class_weights,
              "the weight of each class in the mean loss, which is divided by the sum of the "
              "weights of the labels, as in PyTorch; in validations too. []: all 1")
              .in(above_zero())
              .at_most(1 << 20),
          key("ignore_label", &Training::ignore_label,
              "in language models a token, for example padding, that counts neither in the loss "
              "nor in metrics of a validation where it is the label; -1: none")
              .in(at_least(-1, 16777216))};
}

}  // namespace

const std::vector<Loss>& losses() {
  static const std::vector<Loss>& all = *new std::vector<Loss>{
      {.name = "cross_entropy",
       .targets = Targets::kLabels,
       .keys = keys_of_cross_entropy(),
       .of_logits = true},
      {.name = "mean_squared_error"},
      // Equivalent to: torch.nn.L1Loss.
      {.name = "mean_absolute_error",
       .formula = "d = y - target; l = mean(d * sign_of(d), 1)",
       .gradient = "g = sign_of(y - target) * (weight * dloss / D)"},
      // d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2). `far` is 1 where |d| is above
      // delta, or is NaN. Equivalent to: torch.nn.HuberLoss.
      {.name = "huber",
       .keys = {key("huber_delta", &Training::huber_delta,
                    "the size of a difference from which the loss grows linearly")
                    .in(above_zero())},
       .formula = R"(
         d = y - target;
         a = d * sign_of(d);
         far = positive(a - delta);
         l = mean(gate(d * d / 2, 1 - far) + gate(delta * (a - delta / 2), far), 1))",
       .gradient = R"(
         d = y - target;
         s = sign_of(d);
         far = positive(d * s - delta);
         g = (gate(d, 1 - far) + gate(delta * s, far)) * (weight * dloss / D))"},
      // Equivalent to: torch.nn.BCEWithLogitsLoss.
      {.name = "binary_cross_entropy",
       .targets = Targets::kProbabilities,
       .documentation = "of sigmoid(output) to targets from 0 to 1",
       .of_logits = true,
       .formula = "l = mean(relu(y) - y * target + log(1 + exp(-(y * sign_of(y)))), 1)",
       .gradient = "g = (sigmoid(y) - target) * (weight * dloss / D)"},
      // Equivalent to: torch.nn.KLDivLoss(reduction="batchmean") on the log-softmax of the output.
      {.name = "kl_divergence",
       .targets = Targets::kOneChoice,
       .documentation = "of softmax(output) from targets that sum to 1",
       .of_logits = true,
       .formula = R"(
         d = y - max(y, 1);
         l = sum(gate(target * (log(target) - d + log(sum(exp(d), 1))), target), 1))",
       .gradient = R"(
         e = exp(y - max(y, 1));
         g = (e / sum(e, 1) * sum(target, 1) - target) * (weight * dloss))"},
  };
  return all;
}

const Loss& loss_of(std::string_view name, bool classes) {
  if (name != "auto") return find_row("training.loss", name, losses());
  return *std::find_if(losses().begin(), losses().end(),
                       [&](const Loss& loss) { return loss.of_classes() == classes; });
}

AttributeValues attributes_of(const Loss& loss, Training training) {
  AttributeValues values;
  const std::string own = loss.name + "_";
  for (const KeyOf<Training>& key : loss.keys) {
    if (key.declared.name.starts_with(own))
      values[key.declared.name.substr(own.size())] = *std::get<double*>(key.field(training));
  }
  return values;
}

}  // namespace runtime::config
