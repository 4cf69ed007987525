#include "runtime/train/update_graph.h"

namespace runtime::train {

namespace {

using graph::ValueId;
using graph::ValueKind;

ValueId add_value(graph::Graph& graph, const char* name, ValueKind kind, graph::Dims dims,
                  rt_dtype dtype) {
  graph::Value v;
  v.name = name;
  v.kind = kind;
  v.dims = std::move(dims);
  v.dtype = dtype;
  return graph.add_value(std::move(v));
}

// A state buffer with the dims and type of the parameters.
ValueId add_state(graph::Graph& graph, const char* name, ValueId parameters) {
  const graph::Value& like = graph.value(parameters);
  return add_value(graph, name, ValueKind::kState, graph::Dims(like.dims), like.dtype);
}

void add_sgd(graph::Build& build, const config::Optimizer& o, const UpdateValues& v) {
  std::vector<ValueId> inputs = {v.parameters, v.gradients, v.learning_rate, v.scale};
  std::vector<ValueId> outputs = {v.parameters};
  if (o.momentum != 0) {
    inputs.push_back(add_state(build.graph(), "momentum", v.parameters));
    outputs.push_back(inputs.back());
  }
  build.node_into(RT_OP_SGD, inputs, outputs,
                  {{RT_ATTR_MOMENTUM, o.momentum},
                   {RT_ATTR_NESTEROV, int64_t{o.nesterov}},
                   {RT_ATTR_WEIGHT_DECAY, o.weight_decay}});
}

void add_adamw(graph::Build& build, const config::Optimizer& o, UpdateValues& values) {
  const ValueId m = add_state(build.graph(), "adam_m", values.parameters);
  const ValueId v = add_state(build.graph(), "adam_v", values.parameters);
  values.step = add_value(build.graph(), "optimizer_step", ValueKind::kInput, {1}, RT_INT64);
  build.node_into(
      RT_OP_ADAMW,
      {values.parameters, values.gradients, values.learning_rate, values.scale, m, v, values.step},
      {values.parameters, m, v},
      {{RT_ATTR_BETA1, o.betas.at(0)},
       {RT_ATTR_BETA2, o.betas.at(1)},
       {RT_ATTR_EPSILON, o.eps},
       {RT_ATTR_WEIGHT_DECAY, o.weight_decay}});
}

}  // namespace

void add_update(graph::Build& build, const config::Optimizer& optimizer, UpdateValues& values) {
  build.phase = graph::Phase::kUpdate;
  build.layer = "optimizer";
  optimizer.name == "adamw" ? add_adamw(build, optimizer, values)
                            : add_sgd(build, optimizer, values);
}

UpdateGraph build_update(const config::Optimizer& optimizer, int64_t elements, rt_dtype dtype) {
  UpdateGraph u;
  UpdateValues& v = u.values;
  v.parameters = add_value(u.graph, "parameters", ValueKind::kParameter, {elements}, dtype);
  v.gradients = add_value(u.graph, "gradients", ValueKind::kState, {elements}, dtype);
  v.learning_rate = add_value(u.graph, "learning_rate", ValueKind::kInput, {1}, dtype);
  v.scale = add_value(u.graph, "scale", ValueKind::kState, {1}, dtype);
  graph::Build build(u.graph);
  add_update(build, optimizer, v);
  return u;
}

}  // namespace runtime::train
