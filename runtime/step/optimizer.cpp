// Appends the operations and states of each rule of the optimizer, and compiles updates alone.
#include "runtime/step/optimizer.h"

#include <algorithm>
#include <map>

#include "runtime/config/choices.h"
#include "runtime/graph/fuse.h"
#include "runtime/graph/lower.h"
#include "runtime/graph/open_optimizer.h"
#include "runtime/graph/scanner.h"
#include "runtime/graph/update_operations.h"
#include "runtime/parallel/update.h"
#include "runtime/row_of.h"
#include "runtime/step/parameter_groups.h"

namespace runtime::step {

namespace {

using graph::kNone;
using graph::ValueId;
using graph::ValueKind;

const config::OptimizerRow& row_of_rule(const config::UpdateRule& rule) {
  return find_row("optimizer.name", rule.name, config::optimizers());
}

// A formula of the runtime has the form of a plugin's.
graph::Formula formula_of(const config::UpdateRule& rule) {
  if (const auto& operation = rule.operation)
    return {operation->name, operation->signature, operation->formula};
  const config::OptimizerRow& row = row_of_rule(rule);
  std::string name = std::string(graph::kOwnOperation) + rule.name, state, attributes;
  for (const config::StateBuffer& b : config::state_buffers_of(rule)) {
    state += " " + b.operand + "[E*]";
    if (!b.key.empty()) name += "." + b.key;  // an operation of its own, with other operands
  }
  for (const auto& [attribute, value] : config::attributes_of(rule)) attributes += " " + attribute;
  return {name,
          "p[E*] g[E*] lr[1]" + state + (row.step ? " step {" : " {") + attributes + "} -> p[E*]" +
              state,
          row.formula};
}

// The names of a rule's state buffers, in the order of the operation's operands. Those of a
// plugin's optimizer are called "<plugin>.<name>.<operand>".
std::vector<std::string> state_of(const config::UpdateRule& rule) {
  std::vector<std::string> names;
  if (rule.operation == nullptr) {
    for (const config::StateBuffer& b : config::state_buffers_of(rule)) names.push_back(b.buffer);
    return names;
  }
  for (const std::string& operand : graph::optimizer_operands(formula_of(rule)).state)
    names.push_back(rule.name + "." + operand);
  return names;
}

// Appends the updates of all groups.
class AddOptimizer {
 public:
  AddOptimizer(graph::Build& build, const config::Optimizer& optimizer, UpdateValues& values)
      : build_(build), graph_(build.graph()), optimizer_(optimizer), values_(values) {}

  void run(double max_value) {
    if (max_value > 0) {
      build_.node_into(graph::kClipValue, {values_.gradients, values_.scale}, {values_.gradients},
                       {{graph::kMaxValue, max_value}, scaled()});
    }
    for (const config::UpdateRule& rule : update_rules(optimizer_)) add_update(rule);
    if (optimizer_.average_decay == 0) return;
    const ValueId average = state(kAverage);
    build_.node_into(graph::kMovingAverage, {average, values_.parameters}, {average},
                     {{graph::kDecay, optimizer_.average_decay}});
  }

 private:
  using Attributes = std::vector<graph::Attribute>;

  void add_update(const config::UpdateRule& rule) {
    if (rule.operation != nullptr || !row_of_rule(rule).formula.empty()) return add_formula(rule);
    using Add = void (AddOptimizer::*)(const config::UpdateRule&);
    const Add add = row_of<Add>("optimizer.name", rule.name,
                                {{"sgd", &AddOptimizer::add_sgd},
                                 {"adam", &AddOptimizer::add_adam},
                                 {"adamw", &AddOptimizer::add_adam}});
    (this->*add)(rule);
  }

  graph::Attribute scaled() const { return {graph::kScaled, int64_t{values_.scaled}}; }

  ValueId scalar(const char* name, rt_dtype dtype) {
    return graph_.add_value(name, ValueKind::kInput, {1}, dtype);
  }
  rt_dtype dtype() const { return graph_.value(values_.parameters).dtype; }

  // The learning rate of a rule; rules with the same rate share the value.
  ValueId learning_rate(const config::UpdateRule& rule) {
    const double factor = rule.lr == optimizer_.lr ? 1 : rule.lr / optimizer_.lr;
    std::vector<UpdateInputs::LearningRate>& rates = values_.inputs.learning_rates;
    const auto known = std::find_if(rates.begin(), rates.end(),
                                    [&](const auto& rate) { return rate.factor == factor; });
    if (known != rates.end()) return known->value;
    const std::string name =
        factor == 1 ? "learning_rate" : "learning_rate." + std::to_string(rates.size());
    rates.push_back({graph_.add_value(name, ValueKind::kInput, {1}, dtype()), factor});
    return rates.back().value;
  }

  // A state buffer with the dims and type of the parameters; rules share those of one name.
  ValueId state(const std::string& name) {
    const auto [made, is_new] = states_.try_emplace(name);
    if (is_new) {
      const graph::Value like = graph_.value(values_.parameters);
      made->second = graph_.add_value(name, ValueKind::kState, graph::Dims(like.dims), like.dtype);
      graph_.value(made->second).cuts = like.cuts;
    }
    return made->second;
  }

  // Appends the operation `op` with the rule's state; `more`: operands behind it.
  void add(const config::UpdateRule& rule, const std::string& op, Attributes attributes,
           const std::vector<ValueId>& more = {}) {
    std::vector<ValueId> inputs = {values_.parameters, values_.gradients, learning_rate(rule),
                                   values_.scale};
    std::vector<ValueId> outputs = {values_.parameters};
    for (const std::string& name : state_of(rule)) {
      inputs.push_back(state(name));
      outputs.push_back(inputs.back());
    }
    inputs.insert(inputs.end(), more.begin(), more.end());
    if (values_.narrow != kNone) outputs.push_back(values_.narrow);
    build_.node_into(op, inputs, std::move(outputs), std::move(attributes));
  }

  // Weight decay as an addition to the gradient, for operations that have none of their own.
  void add_weight_decay(const config::UpdateRule& rule) {
    if (rule.weight_decay == 0) return;
    build_.node_into(graph::kAddWeightDecay, {values_.gradients, values_.parameters, values_.scale},
                     {values_.gradients}, {{RT_ATTR_WEIGHT_DECAY, rule.weight_decay}, scaled()});
  }

  void add_sgd(const config::UpdateRule& rule) {
    if (rule.dampening != 0) return add_dampened(rule);
    add(rule, RT_OP_SGD,
        {{RT_ATTR_MOMENTUM, rule.momentum},
         {RT_ATTR_NESTEROV, int64_t{rule.nesterov}},
         {RT_ATTR_WEIGHT_DECAY, rule.weight_decay}});
  }

  void add_dampened(const config::UpdateRule& rule) {
    add_weight_decay(rule);
    ValueId& first = values_.inputs.first;
    if (first == kNone) first = scalar("first_step", dtype());
    add(rule, graph::kSgdDampened,
        {{RT_ATTR_MOMENTUM, rule.momentum}, {graph::kDampening, rule.dampening}, scaled()},
        {first});
  }

  // Adam is AdamW whose weight decay is in the gradient.
  void add_adam(const config::UpdateRule& rule) {
    const bool decoupled = row_of_rule(rule).decoupled;
    if (!decoupled) add_weight_decay(rule);
    const config::AttributeValues values = config::attributes_of(rule);
    add(rule, RT_OP_ADAMW,
        {{RT_ATTR_BETA1, values.at(RT_ATTR_BETA1)},
         {RT_ATTR_BETA2, values.at(RT_ATTR_BETA2)},
         {RT_ATTR_EPSILON, values.at("eps")},
         {RT_ATTR_WEIGHT_DECAY, decoupled ? rule.weight_decay : 0}},
        {step()});
  }

  // A rule whose attributes do not include weight decay has it in the gradient.
  void add_formula(const config::UpdateRule& rule) {
    const graph::Formula formula = formula_of(rule);
    const config::AttributeValues values = config::attributes_of(rule);
    if (!values.contains(RT_ATTR_WEIGHT_DECAY)) add_weight_decay(rule);
    Attributes attributes;
    for (const auto& [name, value] : values) attributes.push_back({name, value});
    const graph::OpenOperation made = graph::make_open_optimizer(formula, attributes);
    graph::add_operation(graph_, made);
    attributes.push_back(scaled());
    std::vector<ValueId> more;
    if (graph::optimizer_operands(formula).step) more.push_back(step());
    add(rule, made.forward.op, std::move(attributes), more);
  }

  // The number of the step, counted from 1.
  ValueId step() {
    ValueId& value = values_.inputs.step;
    if (value == kNone) value = scalar("optimizer_step", RT_INT64);
    return value;
  }

  graph::Build& build_;
  graph::Graph& graph_;
  const config::Optimizer& optimizer_;
  UpdateValues& values_;
  std::map<std::string, ValueId> states_;
};

}  // namespace

std::vector<std::string> optimizer_state(const config::Optimizer& optimizer) {
  std::vector<std::string> names;
  for (const config::UpdateRule& rule : update_rules(optimizer)) {
    for (const std::string& name : state_of(rule)) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  if (optimizer.average_decay > 0) names.emplace_back(kAverage);
  return names;
}

void add_optimizer(graph::Build& build, const config::Optimizer& optimizer, UpdateValues& values,
                   double max_value) {
  build.phase = graph::Phase::kUpdate;
  build.layer = "optimizer";
  AddOptimizer(build, optimizer, values).run(max_value);
}

Update build_update(const config::Optimizer& optimizer, int64_t elements, rt_dtype dtype,
                    const std::vector<uint64_t>& cuts) {
  Update u;
  UpdateValues& v = u.values;
  v.parameters = u.graph.add_value("parameters", ValueKind::kParameter, {elements}, dtype);
  v.gradients = u.graph.add_value("gradients", ValueKind::kState, {elements}, dtype);
  for (const ValueId flat : {v.parameters, v.gradients}) u.graph.value(flat).cuts = cuts;
  v.scale = u.graph.add_value("scale", ValueKind::kState, {1}, dtype);
  graph::Build build(u.graph);
  add_optimizer(build, optimizer, v);
  return u;
}

Update compile_update(const config::Optimizer& optimizer, int64_t elements, rt_dtype dtype,
                      const parallel::FlatLayout& layout, graph::Target& target) {
  Update u = build_update(optimizer, elements, dtype, layout.cuts);
  u.notes = graph::fit_to_device(u.graph, target);
  if (update_rules(optimizer).size() > 1 || !layout.cuts.empty()) {
    parallel::StepBuffers buffers;
    buffers.layout = layout;
    buffers.parameters = u.values.parameters;
    buffers.gradients = u.values.gradients;
    parallel::cut_update(u.graph, buffers);
  }
  for (std::string& note : graph::lower_rest(u.graph, target)) u.notes.push_back(std::move(note));
  return u;
}

}  // namespace runtime::step
