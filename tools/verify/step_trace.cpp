// Runs a step and copies the values of its operations to the host, under names that all devices
// share.
#include "tools/verify/step_trace.h"

#include <algorithm>
#include <optional>
#include <set>

#include "runtime/error.h"
#include "runtime/exec/device_target.h"
#include "runtime/train/rank/micro_steps.h"
#include "tools/verify/judge.h"

namespace runtime::verify {

using graph::kNone;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;

namespace {

rt_tensor_desc describe(const Value& value) {
  return plugins::host::make_tensor_desc(value.dtype, value.dims, value.layout);
}

}  // namespace

std::vector<std::string> value_names(const graph::Graph& graph, ValueId end) {
  std::map<std::string, int> count;
  std::vector<std::string> names;
  for (ValueId id = 0; id < end; ++id) {
    const std::string& name = graph.value(id).name;
    const int n = ++count[name];
    names.push_back(name + (n > 1 ? " (" + std::to_string(n) + ")" : ""));
  }
  return names;
}

// The values of a program, by their index.
struct StepTrace::Names {
  Names(const train::StepProgram& program, const std::string& prefix)
      : names(value_names(program.graph(), program.values.first_added)) {
    for (std::string& name : names) name.insert(0, prefix);
    gradients.insert(program.values.gradients.begin(), program.values.gradients.end());
  }

  std::vector<std::string> names;  // by value
  std::set<ValueId> gradients;     // values that are gradients of parameters
};

StepTrace::StepTrace(train::StepPrograms& programs)
    : programs_(programs), copies_(programs_.stream()) {}

StepTrace::~StepTrace() = default;

bool StepTrace::is_state(const train::StepProgram& program, ValueId id) const {
  const Value& value = program.graph().value(id);
  return (value.kind == ValueKind::kParameter || value.kind == ValueKind::kState) &&
         value.base == kNone && id != program.values.buffers.gradients && program.program->uses(id);
}

Tensors StepTrace::state() {
  train::StepProgram& p = programs_.any_compiled();
  Tensors state;
  for (ValueId id = 0; id < p.values.first_added; ++id) {
    if (!is_state(p, id)) continue;
    const Value& value = p.graph().value(id);
    state[value.name] = {
        value.dtype, value.dims,
        programs_.rank_model().read_buffer(value.name, 0, graph::canonical_bytes(value))};
  }
  return state;
}

void StepTrace::set_state(const Tensors& state, const std::string& source) {
  train::StepProgram& p = programs_.any_compiled();
  for (ValueId id = 0; id < p.values.first_added; ++id) {
    if (!is_state(p, id)) continue;
    const Value& value = p.graph().value(id);
    const auto it = state.find(value.name);
    if (it == state.end() || it->second.bytes.size() != graph::canonical_bytes(value)) {
      throw DataError(source + " has " +
                      (it == state.end() ? "no '" + value.name + "'"
                                         : "'" + value.name + "' of " +
                                               std::to_string(it->second.bytes.size()) + " bytes") +
                      ", expected " + std::to_string(graph::canonical_bytes(value)) +
                      " bytes; both must come from the same configuration");
    }
    programs_.rank_model().write_buffer(value.name, 0, it->second.bytes);
  }
  programs_.rank_model().storage().parameters_changed();
}

// The values that a node writes and that the graph had before the passes; for the buffer of all
// parameters, each parameter.
std::vector<ValueId> StepTrace::written(const train::StepProgram& p, size_t node) const {
  std::vector<ValueId> list;
  const graph::Node& n = p.graph().nodes[node];
  if (n.phase == graph::Phase::kPack || n.collective) return list;
  for (const ValueId id : n.outputs) {
    if (id >= p.values.first_added || !p.program->uses(id)) continue;
    if (id != p.values.buffers.parameters) {
      list.push_back(id);
      continue;
    }
    for (const model::Parameter& parameter : p.values.parameters) {
      if (p.graph().value(parameter.value).base == id) list.push_back(parameter.value);
    }
  }
  return list;
}

bool StepTrace::visit_value(train::StepProgram& p, const Names& names, ValueId id,
                            TracedValue& traced, const Visit& visit) {
  const Value& value = p.graph().value(id);
  auto bytes = copies_.read(describe(value), p.address(id));
  if (!bytes) return false;
  traced.name = names.names[id];
  traced.parameter_gradient = names.gradients.contains(id);
  traced.tensor = {value.dtype, value.dims, std::move(*bytes)};
  if (visit(traced)) copies_.write(describe(value), p.address(id), traced.tensor.bytes);
  return true;
}

TracedStep StepTrace::step(const data::Batch& batch, double learning_rate, int64_t step,
                           const Visit& visit) {
  const size_t passes = programs_.forms(step::Purpose::kTraining, batch).size();
  TracedStep result;
  size_t pass = 0;
  const auto run = [&](train::StepProgram& p) {
    const Names names(p, passes > 1 ? "pass " + std::to_string(pass++) + ": " : "");
    p.program->run_observed(programs_.stream(), [&](size_t node) {
      const graph::Node& n = p.graph().nodes[node];
      TracedValue traced{{}, n.layer, n.op, false, {}};
      for (const ValueId id : written(p, node))
        result.left_out += visit_value(p, names, id, traced, visit) ? 0 : 1;
    });
    result.loss = programs_.read_scalar(p, p.values.loss);
  };
  train::for_each_micro_step(programs_, step::Purpose::kTraining, batch, learning_rate, step,
                             nullptr, run);
  return result;
}

uint64_t StepTrace::bytes(const data::Batch& batch) {
  uint64_t sum = 0;
  for (const auto& [name, tensor] : state()) sum += tensor.bytes.size();
  for (const step::StepForm& key : programs_.forms(step::Purpose::kTraining, batch)) {
    const train::StepProgram& p = programs_.compiled(key);
    for (size_t node = 0; node < p.graph().nodes.size(); ++node) {
      for (const ValueId id : written(p, node)) sum += graph::canonical_bytes(p.graph().value(id));
    }
  }
  return sum;
}

double StepTrace::tolerance() {
  double tolerance = 1e-9;
  for (const Value& value : programs_.any_compiled().graph().values) {
    if (value.dtype == RT_FLOAT32) tolerance = std::max(tolerance, 1e-4);
    if (value.dtype == RT_FLOAT16 || value.dtype == RT_BFLOAT16) tolerance = 2e-2;
  }
  return tolerance;
}

double StepTrace::tolerance_with_claims() {
  const train::StepProgram& p = programs_.any_compiled();
  double widest = tolerance();
  for (const graph::Node& node : p.graph().nodes) {
    if (node.collective || node.outputs.empty()) continue;
    const auto operation = exec::to_operation(p.graph(), node, p.program->operation_flags());
    const auto& device =
        node.on_fallback ? programs_.setup().options.target.fallback : programs_.setup().device;
    widest = tolerance_with_claim(widest, operation.outputs[0].dtype,
                                  claimed_tolerance(*device, operation));
  }
  return widest;
}

}  // namespace runtime::verify
