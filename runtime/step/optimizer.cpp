#include "runtime/step/optimizer.h"

#include "runtime/graph/fuse.h"
#include "runtime/graph/lower.h"
#include "runtime/parallel/update.h"

namespace runtime::step {

namespace {

using graph::ValueId;
using graph::ValueKind;

constexpr char kMomentum[] = "momentum", kFirstMoment[] = "adam_m", kSecondMoment[] = "adam_v";

// A state buffer with the dims and type of the parameters.
ValueId add_state(graph::Graph& graph, const char* name, ValueId parameters) {
  const graph::Value& like = graph.value(parameters);
  return graph.add_value(name, ValueKind::kState, graph::Dims(like.dims), like.dtype);
}

void add_sgd(graph::Build& build, const config::Optimizer& o, const UpdateValues& v) {
  std::vector<ValueId> inputs = {v.parameters, v.gradients, v.learning_rate, v.scale};
  std::vector<ValueId> outputs = {v.parameters};
  if (o.momentum != 0) {
    inputs.push_back(add_state(build.graph(), kMomentum, v.parameters));
    outputs.push_back(inputs.back());
  }
  if (v.narrow != graph::kNone) outputs.push_back(v.narrow);
  build.node_into(RT_OP_SGD, inputs, outputs,
                  {{RT_ATTR_MOMENTUM, o.momentum},
                   {RT_ATTR_NESTEROV, int64_t{o.nesterov}},
                   {RT_ATTR_WEIGHT_DECAY, o.weight_decay}});
}

void add_adamw(graph::Build& build, const config::Optimizer& o, UpdateValues& values) {
  const ValueId m = add_state(build.graph(), kFirstMoment, values.parameters);
  const ValueId v = add_state(build.graph(), kSecondMoment, values.parameters);
  values.step = build.graph().add_value("optimizer_step", ValueKind::kInput, {1}, RT_INT64);
  std::vector<ValueId> outputs = {values.parameters, m, v};
  if (values.narrow != graph::kNone) outputs.push_back(values.narrow);
  build.node_into(
      RT_OP_ADAMW,
      {values.parameters, values.gradients, values.learning_rate, values.scale, m, v, values.step},
      std::move(outputs),
      {{RT_ATTR_BETA1, o.betas.at(0)},
       {RT_ATTR_BETA2, o.betas.at(1)},
       {RT_ATTR_EPSILON, o.eps},
       {RT_ATTR_WEIGHT_DECAY, o.weight_decay}});
}

}  // namespace

std::vector<std::string> optimizer_state(const config::Optimizer& optimizer) {
  if (optimizer.name == "adamw") return {kFirstMoment, kSecondMoment};
  if (optimizer.momentum != 0) return {kMomentum};
  return {};
}

void add_optimizer(graph::Build& build, const config::Optimizer& optimizer, UpdateValues& values) {
  build.phase = graph::Phase::kUpdate;
  build.layer = "optimizer";
  optimizer.name == "adamw" ? add_adamw(build, optimizer, values)
                            : add_sgd(build, optimizer, values);
}

Update build_update(const config::Optimizer& optimizer, int64_t elements, rt_dtype dtype) {
  Update u;
  UpdateValues& v = u.values;
  v.parameters = u.graph.add_value("parameters", ValueKind::kParameter, {elements}, dtype);
  v.gradients = u.graph.add_value("gradients", ValueKind::kState, {elements}, dtype);
  v.learning_rate = u.graph.add_value("learning_rate", ValueKind::kInput, {1}, dtype);
  v.scale = u.graph.add_value("scale", ValueKind::kState, {1}, dtype);
  graph::Build build(u.graph);
  add_optimizer(build, optimizer, v);
  return u;
}

Update compile_update(const config::Optimizer& optimizer, int64_t elements, rt_dtype dtype,
                      const parallel::FlatLayout& layout, graph::Target& target) {
  Update u = build_update(optimizer, elements, dtype);
  graph::fit_to_device(u.graph, target);
  if (layout.has_vectors()) {
    parallel::StepBuffers buffers;
    buffers.layout = layout;
    buffers.parameters = u.values.parameters;
    buffers.gradients = u.values.gradients;
    parallel::cut_update(u.graph, buffers);
  }
  graph::lower_rest(u.graph, target);
  return u;
}

}  // namespace runtime::step
