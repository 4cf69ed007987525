// The pass that places parameters and gradients in flat buffers.
#include <algorithm>

#include "runtime/error.h"
#include "runtime/graph/build.h"
#include "runtime/graph/print.h"
#include "runtime/step/freeze.h"
#include "runtime/step/parameter_groups.h"
#include "runtime/step/passes.h"

namespace runtime::step {

using graph::Dims;
using graph::kNone;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;

namespace {

class FlatBuffers {
 public:
  FlatBuffers(Step& step, const StepInput& input)
      : step_(step),
        graph_(step.graph),
        values_(step.values),
        input_(input),
        dtype_(input.strategy.precision.parameters) {}

  // Parameters lie in two buffers, one for the trained and one for the frozen ones. All programs of
  // a model have the same layout, whatever their step form.
  void run() {
    parallel::StepBuffers& buffers = values_.buffers;
    values_.offsets.assign(values_.parameters.size(), 0);
    buffers.layout = place(kParameters, false, buffers.parameters);
    buffers.frozen_layout = place(kFrozen, true, buffers.frozen);
    if (input_.form.backward()) place_gradients();
  }

 private:
  bool frozen(const model::Parameter& p) const {
    return matches_any(input_.training.freeze, p.name);
  }

  void expect_room(const model::Parameter& p, uint64_t bytes) const {
    const parallel::FlatLayoutOptions& buckets = input_.strategy.buckets;
    if (bytes <= buckets.most_bytes()) return;
    throw DeviceError("parameter '" + p.name + "', " + graph::name_of(dtype_) + " " +
                      graph::to_string(graph_.value(p.value).dims) + ", has " +
                      std::to_string(bytes) + " bytes, and one buffer of the device has at most " +
                      std::to_string(buckets.largest_buffer) + ", of which parameters can have " +
                      std::to_string(buckets.most_bytes()) +
                      "; split the layer (parallelism.tensor), make it smaller, or use a device "
                      "with larger buffers");
  }

  parallel::FlatLayout place(const std::string& name, bool of_frozen, ValueId& flat) {
    std::vector<uint64_t> bytes;
    std::vector<size_t> which;
    std::vector<size_t> groups;
    std::vector<bool> whole;
    for (size_t i = 0; i < values_.parameters.size(); ++i) {
      const model::Parameter& p = values_.parameters[i];
      if (!p.trainable || frozen(p) != of_frozen || !holds(step_, i)) continue;
      which.push_back(i);
      bytes.push_back(graph::canonical_bytes(graph_.value(p.value)));
      expect_room(p, bytes.back());
      groups.push_back(group_of(input_.training.optimizer, p));
      whole.push_back(!values_.sharded.empty() && values_.sharded[i].split.is_whole());
    }
    parallel::FlatLayout layout = parallel::lay_out(bytes, input_.strategy.buckets, groups, whole);
    flat =
        graph_.add_value(name, ValueKind::kParameter,
                         {static_cast<int64_t>(layout.bytes / graph::dtype_bytes(dtype_))}, dtype_);
    graph_.value(flat).cuts = layout.cuts;
    for (size_t k = 0; k < which.size(); ++k) {
      Value& v = graph_.value(values_.parameters[which[k]].value);
      v.base = flat;
      v.offset = values_.offsets[which[k]] = layout.offsets[k];
    }
    return layout;
  }

  void place_gradients() {
    parallel::StepBuffers& buffers = values_.buffers;
    buffers.gradients = graph_.add_value(kGradients, ValueKind::kState,
                                         Dims(graph_.value(buffers.parameters).dims), dtype_);
    graph_.value(buffers.gradients).cuts = buffers.layout.cuts;
    graph::Build build(graph_);
    build.phase = graph::Phase::kBackward;
    for (size_t i = 0; i < values_.gradients.size(); ++i) {
      ValueId& g = values_.gradients[i];
      if (g == kNone) continue;
      const std::string& parameter = values_.parameters[i].name;
      build.layer = parameter;
      // A view, or a value that is the gradient of two parameters, cannot be moved, so it is
      // copied.
      if (graph_.storage(g) != g || g == values_.loss_gradient || !is_first_use(i)) {
        const ValueId copy = graph_.add_value(parameter + ".gradient", ValueKind::kTemporary,
                                              Dims(graph_.value(g).dims), dtype_);
        build.node_into(RT_OP_COPY, {g}, {copy});
        if (values_.pipeline) values_.pipeline->replace_gradient(g, copy);
        g = copy;
      }
      graph_.value(g).base = buffers.gradients;
      graph_.value(g).offset = values_.offsets[i];
      graph_.value(g).name = parameter + ".gradient";
    }
  }

  bool is_first_use(size_t i) const {
    const auto here = values_.gradients.begin() + static_cast<std::ptrdiff_t>(i);
    return std::find(values_.gradients.begin(), here, *here) == here;
  }

  Step& step_;
  graph::Graph& graph_;
  StepValues& values_;
  const StepInput& input_;
  const rt_dtype dtype_;
};

}  // namespace

void place_in_flat_buffers(Step& step, const StepInput& input) { FlatBuffers(step, input).run(); }

}  // namespace runtime::step
