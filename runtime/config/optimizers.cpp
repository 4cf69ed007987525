// The optimizers. A row with a formula is all that there is of an optimizer; those without one are
// operations of the contract, which runtime/step/optimizer.cpp adds.
#include "runtime/config/choices.h"

namespace runtime::config {

namespace {

using R = UpdateRule;

KeyOf<R> momentum() { return key("momentum", &R::momentum, "momentum").in(from_zero_to_below(1)); }

KeyOf<R> eps(double own) {
  return key("eps", &R::eps, "added to the root in the denominator")
      .in(at_least(0))
      .otherwise({own});
}

KeyOf<R> betas(const std::string& documentation, double second) {
  return key("betas", &R::betas, documentation)
      .in(from_zero_to_below(1))
      .at_most(2)
      .otherwise({0.9, second});
}

std::vector<KeyOf<R>> keys_of_adam() {
  return {betas("decay of the first and the second moment", 0.999), eps(1e-8)};
}

}  // namespace

const std::vector<OptimizerRow>& optimizers() {
  static const std::vector<OptimizerRow>& all = *new std::vector<OptimizerRow>{
      {.name = "sgd",
       .keys = {momentum(),
                key("dampening", &R::dampening,
                    "with momentum, which gets (1 - dampening) * gradient from the second step on")
                    .in(at_least(0, 1)),
                key("nesterov", &R::nesterov, "Nesterov's momentum")},
       .state = {{.buffer = "momentum", .key = "momentum"}}},
      {.name = "adam", .keys = keys_of_adam(), .state = {{"adam_m"}, {"adam_v"}}},
      {.name = "adamw",
       .keys = keys_of_adam(),
       .decoupled = true,
       .state = {{"adam_m"}, {"adam_v"}}},
      {.name = "rmsprop",
       .keys = {momentum(), eps(1e-8),
                key("alpha", &R::alpha, "decay of the mean square").in(from_zero_to_below(1)),
                key("centered", &R::centered,
                    "the square of the mean gradient is subtracted from the mean square")},
       .state = {{.buffer = "mean_square", .operand = "squares"},
                 {.buffer = "mean_gradient", .operand = "centre", .key = "centered"},
                 {.buffer = "momentum", .operand = "velocity", .key = "momentum"}},
       .formula = R"(
         s = alpha * squares + (1 - alpha) * (g * g);
         m = centered ? alpha * centre + (1 - alpha) * g : g;
         u = g / (sqrt(centered ? s - m * m : s) + eps);
         v = momentum ? momentum * velocity + u : u;
         squares = s;
         centre = m;
         velocity = v;
         p = p - lr * v)"},
      {.name = "adagrad",
       .keys = {eps(1e-10), key("initial_accumulator", &R::initial_accumulator,
                                "value with which the sum of squares begins")
                                .in(at_least(0))},
       .state = {{.buffer = "sum_of_squares", .operand = "squares"}},
       .formula = R"(
         s = squares + g * g;
         squares = s;
         p = p - lr * (g / (sqrt(initial_accumulator ? s + initial_accumulator : s) + eps)))"},
      // `sign` is NaN where the step is.
      {.name = "lion",
       .keys = {betas("weight of the momentum in the update, and its decay", 0.99)},
       .decoupled = true,
       .state = {{.buffer = "lion_m", .operand = "m"}},
       .formula = R"(
         u = beta1 * m + (1 - beta1) * g;
         sign = positive(u) - positive(-u) + gate(u, is_nan(u));
         m = beta2 * m + (1 - beta2) * g;
         p = (weight_decay ? p * (1 - weight_decay * lr) : p) - lr * sign)"},
  };
  return all;
}

namespace {

// The numbers of a key; those of the row where the rule has none.
std::vector<double> numbers_of(const KeyOf<R>& key, R& rule) {
  const Field field = key.field(rule);
  if (const auto* list = std::get_if<std::vector<double>*>(&field))
    return (*list)->empty() ? key.own_default : **list;
  if (const auto* yes = std::get_if<bool*>(&field)) return {static_cast<double>(**yes)};
  const double number = **std::get_if<double*>(&field);
  return number == 0 && !key.own_default.empty() ? key.own_default : std::vector<double>{number};
}

}  // namespace

AttributeValues attributes_of(UpdateRule rule) {
  if (rule.operation != nullptr) return rule.attributes;
  const OptimizerRow& row = find_row("optimizer.name", rule.name, optimizers());
  AttributeValues values;
  for (const KeyOf<R>& key : row.keys) {
    const std::string& name = key.declared.name;
    const std::vector<double> numbers = numbers_of(key, rule);
    const std::string item = name.substr(0, name.size() - 1);  // of a list: beta1 of betas
    for (size_t i = 0; i < numbers.size(); ++i)
      values[numbers.size() > 1 ? item + std::to_string(i + 1) : name] = numbers[i];
  }
  if (row.decoupled) values["weight_decay"] = rule.weight_decay;
  return values;
}

std::vector<StateBuffer> state_buffers_of(const UpdateRule& rule) {
  const AttributeValues values = attributes_of(rule);
  std::vector<StateBuffer> state = find_row("optimizer.name", rule.name, optimizers()).state;
  std::erase_if(state, [&](const StateBuffer& buffer) {
    return !buffer.key.empty() && std::get<double>(values.at(buffer.key)) == 0;
  });
  return state;
}

}  // namespace runtime::config
