#include "runtime/train/step_graph.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/graph/autodiff.h"
#include "runtime/graph/build.h"
#include "runtime/graph/mixed_precision.h"
#include "runtime/train/update_graph.h"
#include "runtime/train/weights.h"

namespace runtime::train {

namespace {

using graph::Attribute;
using graph::Build;
using graph::Dims;
using graph::Graph;
using graph::kNone;
using graph::Phase;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;

class StepBuilder {
 public:
  StepBuilder(const model::Model& model, const StepOptions& options)
      : options_(options), build_(step_.graph) {
    model::NetworkOptions network;
    network.batch = options.batch;
    network.dtype = options.dtype;
    network.training = options.purpose != Purpose::kEvaluation;
    network.seed = options.seed;
    network.split_batch_norm = options.split_batch_norm;
    model::Network net = model::build_network(model, network);
    step_.graph = std::move(net.graph);
    step_.features = net.features;
    step_.output = net.output;
    step_.dropout_step = net.step;
    step_.sample_base = net.sample_base;
    step_.weight = net.weight;
    step_.parameters = std::move(net.parameters);
    step_.blocks = std::move(net.blocks);
    step_.stages = std::move(net.stages);
    step_.shards = std::move(net.shards);
  }

  StepGraph run() {
    add_loss();
    shard_step(step_, options_.model_parallel);
    if (options_.activations != 0) narrow_activations();
    if (options_.purpose == Purpose::kEvaluation) {
      cut_step(step_, options_.model_parallel);
      place_parameters();
      return std::move(step_);
    }
    add_gradients();
    cut_step(step_, options_.model_parallel);
    place_parameters();
    place_gradients();
    if (options_.purpose == Purpose::kTraining) add_update();
    return std::move(step_);
  }

 private:
  ValueId value(const std::string& name, ValueKind kind, Dims dims, rt_dtype dtype) {
    Value v;
    v.name = name;
    v.kind = kind;
    v.dims = std::move(dims);
    v.dtype = dtype;
    return step_.graph.add_value(std::move(v));
  }

  bool classification() const { return options_.loss == "cross_entropy"; }

  void add_loss() {
    const Dims out = step_.graph.value(step_.output).dims;
    step_.predictions = out.back();
    build_.layer = "loss";
    const Dims rows(out.begin(), classification() ? out.end() - 1 : out.begin() + 1);
    if (step_.weight == kNone) {
      step_.weight = value("weight", ValueKind::kInput, rows, options_.dtype);
    } else if (rows.size() > 1) {
      weigh_predictions(rows);
    }
    if (classification()) {
      step_.target = value("labels", ValueKind::kInput, Dims(out.begin(), out.end() - 1), RT_INT32);
      step_.loss = build_.cross_entropy(step_.output, step_.target, step_.weight);
    } else {
      step_.target =
          value("targets", ValueKind::kInput, {options_.batch, options_.targets}, options_.dtype);
      step_.loss = build_.mean_squared_error(step_.output, step_.target, step_.weight);
    }
    if (options_.purpose == Purpose::kEvaluation) {
      if (classification()) {
        step_.correct = build_.correct_count(step_.output, step_.target, step_.weight);
        step_.graph.value(step_.correct).kind = ValueKind::kOutput;
      }
    } else {
      add_l2();
    }
    if (options_.purpose == Purpose::kGradients || options_.purpose == Purpose::kEvaluation)
      keep_predictions();
    step_.graph.value(step_.loss).kind = ValueKind::kOutput;
  }

  // The caller gives one weight for each prediction. Batch normalisation runs before the loss and
  // reads one for each sample, which is the sum over the sample's predictions.
  void weigh_predictions(const Dims& rows) {
    const ValueId of_samples = step_.weight;
    step_.graph.value(of_samples).kind = ValueKind::kTemporary;
    step_.graph.value(of_samples).name.clear();
    step_.weight = value("weight", ValueKind::kInput, rows, options_.dtype);
    std::vector<graph::Node>& nodes = step_.graph.nodes;
    const auto reader = std::find_if(nodes.begin(), nodes.end(), [&](const graph::Node& n) {
      return std::count(n.inputs.begin(), n.inputs.end(), of_samples) > 0;
    });
    build_.layer = reader->layer;
    const int64_t all_but_the_first = (int64_t{1} << rows.size()) - 2;
    build_.node_into(
        RT_OP_REDUCE, {step_.weight}, {of_samples},
        {{RT_ATTR_FUNCTION, int64_t{RT_REDUCE_SUM}}, {RT_ATTR_AXES, all_but_the_first}});
    std::rotate(nodes.begin(), nodes.end() - 1, nodes.end());
    build_.layer = "loss";
  }

  // Makes the predictions an output. If they are a view (the output of a flatten), the caller gets
  // a copy, because the memory of the base is reused after its last reader.
  void keep_predictions() {
    if (step_.graph.storage(step_.output) != step_.output) {
      const ValueId copy = value("", ValueKind::kTemporary,
                                 Dims(step_.graph.value(step_.output).dims), options_.dtype);
      build_.node_into(RT_OP_COPY, {step_.output}, {copy});
      step_.output = copy;
    }
    step_.graph.value(step_.output).kind = ValueKind::kOutput;
  }

  void add_l2() {
    for (const model::Parameter& p : step_.parameters) {
      if (p.l2 > 0)
        step_.loss = build_.add(step_.loss,
                                build_.scale(build_.square_sum(p.value), p.l2 * options_.l2_share));
    }
  }

  // Runs after the tensor-parallel split, so that ranks exchange 16-bit activations.
  void narrow_activations() {
    graph::narrow_activations(step_.graph, options_.activations);
    Value& output = step_.graph.value(step_.output);
    if (output.kind != ValueKind::kOutput) return;
    const std::string name = output.name;
    output.kind = ValueKind::kTemporary;
    step_.output = build_.cast(step_.output, options_.dtype);
    keep_output(step_.output, name);
  }

  // The gradient of the loss: a persistent 1, or with float16 the scale of the loss.
  ValueId loss_gradient() {
    step_.one = value("one", ValueKind::kState, {1}, options_.dtype);
    if (options_.activations != RT_FLOAT16) return step_.one;
    step_.loss_scaling = value(kLossScaling, ValueKind::kState, {3}, options_.dtype);
    Value scale;
    scale.dtype = options_.dtype;
    scale.dims = {1};
    scale.base = step_.loss_scaling;
    return step_.graph.add_value(std::move(scale));
  }

  bool frozen(const std::string& name) const { return matches_any(options_.freeze, name); }

  void add_gradients() {
    for (const std::string& pattern : options_.freeze) check_pattern(pattern);
    std::vector<ValueId> wanted;
    for (const model::Parameter& p : step_.parameters) {
      if (p.trainable && !frozen(p.name)) wanted.push_back(p.value);
    }
    if (wanted.empty()) {
      throw ConfigurationError(
          options_.freeze.empty() ? "model.layers have no parameter to train; add a layer that has "
                                    "weights, such as a linear one"
                                  : "model.freeze leaves no parameter to train");
    }
    dloss_ = loss_gradient();
    const auto gradients = graph::differentiate(step_.graph, step_.loss, dloss_, wanted);
    for (const model::Parameter& p : step_.parameters) {
      const auto it = gradients.find(p.value);
      step_.gradients.push_back(it == gradients.end() ? kNone : it->second);
    }
  }

  void check_pattern(const std::string& pattern) const {
    for (const model::Parameter& p : step_.parameters) {
      if (matches_any({pattern}, p.name)) return;
    }
    throw ConfigurationError("model.freeze: no parameter matches '" + pattern +
                             "'; the first one is named '" +
                             (step_.parameters.empty() ? "" : step_.parameters.front().name) + "'");
  }

  // Places parameters in two buffers, one for the trained and one for the frozen ones. The layout
  // is the same in every step form of a model.
  void place_parameters() {
    buffers_.layout = place("parameters", false, options_.flat);
    buffers_.frozen_layout = place("frozen", true, options_.flat);
    step_.buffers.loss = step_.loss;
    step_.buffers.correct = step_.correct;
  }

  parallel::FlatLayout place(const std::string& name, bool of_frozen,
                             const parallel::FlatLayoutOptions& options) {
    std::vector<uint64_t> bytes;
    std::vector<size_t> which;
    std::vector<bool> vectors;
    for (size_t i = 0; i < step_.parameters.size(); ++i) {
      const model::Parameter& p = step_.parameters[i];
      if (!p.trainable || frozen(p.name) != of_frozen || !holds(step_, i)) continue;
      which.push_back(i);
      bytes.push_back(graph::canonical_bytes(step_.graph.value(p.value)));
      vectors.push_back(vectors_apart() && p.file_dims.size() < 2);
    }
    const parallel::FlatLayout layout = parallel::lay_out(bytes, options, vectors);
    const ValueId flat =
        value(name, ValueKind::kParameter, {elements(layout.bytes)}, options_.dtype);
    (of_frozen ? buffers_.frozen : buffers_.parameters) = flat;
    offsets_.resize(step_.parameters.size());
    for (size_t k = 0; k < which.size(); ++k) {
      Value& v = step_.graph.value(step_.parameters[which[k]].value);
      v.base = flat;
      v.offset = offsets_[which[k]] = layout.offsets[k];
    }
    return layout;
  }

  bool vectors_apart() const {
    return options_.optimizer.weight_decay != 0 && options_.optimizer.weight_decay_on == "matrices";
  }

  int64_t elements(uint64_t bytes) const {
    return static_cast<int64_t>(bytes / graph::dtype_bytes(options_.dtype));
  }

  void place_gradients() {
    buffers_.gradients = state("gradients");
    build_.phase = Phase::kBackward;
    for (size_t i = 0; i < step_.gradients.size(); ++i) {
      ValueId& g = step_.gradients[i];
      if (g == kNone) continue;
      build_.layer = step_.parameters[i].name;
      // A view, or a value that is the gradient of two parameters, cannot be moved, so it is
      // copied.
      const ValueId s = step_.graph.storage(g);
      if (s != g || g == dloss_ || !is_first_use(i)) {
        const ValueId copy = value(step_.parameters[i].name + ".gradient", ValueKind::kTemporary,
                                   Dims(step_.graph.value(g).dims), options_.dtype);
        build_.node_into(RT_OP_COPY, {g}, {copy});
        if (step_.pipeline) step_.pipeline->replace_gradient(g, copy);
        g = copy;
      }
      step_.graph.value(g).base = buffers_.gradients;
      step_.graph.value(g).offset = offsets_[i];
      step_.graph.value(g).name = step_.parameters[i].name + ".gradient";
    }
  }

  bool is_first_use(size_t i) const {
    return std::find(
               step_.gradients.begin(), step_.gradients.begin() + static_cast<std::ptrdiff_t>(i),
               step_.gradients[i]) == step_.gradients.begin() + static_cast<std::ptrdiff_t>(i);
  }

  ValueId state(const std::string& name) {
    return value(name, ValueKind::kState, Dims(step_.graph.value(buffers_.parameters).dims),
                 options_.dtype);
  }

  void add_update() {
    build_.phase = Phase::kUpdate;
    build_.layer = "optimizer";
    step_.learning_rate = value("learning_rate", ValueKind::kInput, {1}, options_.dtype);
    ValueId scale = step_.one;
    const std::vector<Attribute> max_norm = {{RT_ATTR_MAX_NORM, options_.max_norm}};
    if (step_.loss_scaling != kNone) {
      const ValueId sum = gradient_square_sum();
      scale = value("", ValueKind::kTemporary, {1}, options_.dtype);
      build_.node_into(RT_OP_LOSS_SCALE, {sum, step_.loss_scaling}, {scale, step_.loss_scaling},
                       max_norm);
    } else if (options_.max_norm > 0) {
      scale = build_.node1(RT_OP_CLIP_SCALE, {gradient_square_sum()}, {1}, max_norm);
    }
    if (buffers_.layout.bytes == 0) {  // a stage without parameters; other ranks wait for its norm
      if (scale != step_.one) keep_output(scale, "gradient_scale");
      return;
    }
    UpdateValues values{buffers_.parameters, buffers_.gradients, step_.learning_rate, scale};
    train::add_update(build_, options_.optimizer, values);
    step_.step = values.step;
  }

  void keep_output(ValueId v, const std::string& name) {
    step_.graph.value(v).kind = ValueKind::kOutput;
    step_.graph.value(v).name = name;
  }

  ValueId gradient_view(uint64_t offset, uint64_t bytes) {
    const ValueId v = value("", ValueKind::kTemporary, {elements(bytes)}, options_.dtype);
    step_.graph.value(v).base = buffers_.gradients;
    step_.graph.value(v).offset = offset;
    return v;
  }

  ValueId gradient_square_sum() {
    const ModelParallel& parts = options_.model_parallel;
    // Leaves out the padding at the end, whose size depends on the number of ranks.
    if (!parts.several()) return build_.square_sum(gradient_view(0, buffers_.layout.used_bytes));
    ValueId sum = kNone;
    for (size_t i = 0; i < step_.parameters.size(); ++i) {
      if (step_.gradients[i] == kNone) continue;
      const uint64_t bytes = graph::canonical_bytes(step_.graph.value(step_.parameters[i].value));
      ValueId square = build_.square_sum(gradient_view(offsets_[i], bytes));
      const int copies = copies_of_gradient(step_, i, parts);
      if (copies > 1) square = build_.scale(square, 1.0 / copies);
      sum = sum == kNone ? square : build_.add(sum, square);
    }
    if (sum == kNone) sum = build_.scale(step_.one, 0);  // this rank has no gradient
    if (parts.mesh.tensor > 1) sum = build_.all_reduce(sum, parallel::kTensorCommunicator);
    if (parts.mesh.pipeline > 1) sum = build_.all_reduce(sum, parallel::kPipelineCommunicator);
    return sum;
  }

  const StepOptions& options_;
  StepGraph step_;
  Build build_;
  std::vector<uint64_t> offsets_;  // bytes into the flat buffer, by parameter
  ValueId dloss_ = kNone;
  parallel::StepBuffers& buffers_ = step_.buffers;
};

}  // namespace

Dims StepGraph::whole_dims(ValueId parameter) const {
  for (size_t i = 0; i < sharded.size(); ++i) {
    if (parameters[i].value == parameter) return sharded[i].dims;
  }
  return graph.value(parameter).dims;
}

StepGraph build_step(const model::Model& model, const StepOptions& options) {
  return StepBuilder(model, options).run();
}

}  // namespace runtime::train
