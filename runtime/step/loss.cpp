// The passes that make the forward step: layers, loss, and the checks against the data set.

#include "runtime/config/choices.h"
#include "runtime/error.h"
#include "runtime/graph/build.h"
#include "runtime/graph/fold_batch_norm.h"
#include "runtime/graph/loss_operations.h"
#include "runtime/graph/mixed_precision.h"
#include "runtime/graph/open_nodes.h"
#include "runtime/graph/operation_set.h"
#include "runtime/graph/scanner.h"
#include "runtime/row_of.h"
#include "runtime/step/passes.h"

namespace runtime::step {

using graph::Dims;
using graph::Graph;
using graph::ValueId;
using graph::ValueKind;

namespace {

class Loss {
 public:
  Loss(Step& step, const StepInput& input)
      : graph_(step.graph),
        values_(step.values),
        input_(input),
        dtype_(input.strategy.precision.parameters),
        build_(step.graph) {}

  void run() {
    const Dims out = graph_.value(values_.output).dims;
    values_.predictions = out.back();
    build_.layer = "loss";
    const Dims rows(out.begin(), classification() ? out.end() - 1 : out.begin() + 1);
    values_.weight = graph_.add_value("weight", ValueKind::kInput, rows, dtype_);
    classification() ? compare_with_labels(out) : compare_with_targets();
    const Purpose purpose = input_.form.purpose;
    const bool backward = input_.form.backward();
    add_heads(backward);
    if (backward) add_l2();
    if (purpose == Purpose::kGradients || !backward) keep_predictions();
    // The loss of a text that is continued is read by nothing, and a later pass removes it.
    if (backward || purpose == Purpose::kEvaluation)
      graph_.value(values_.loss).kind = ValueKind::kOutput;
  }

 private:
  bool classification() const { return input_.training.loss.of_classes; }

  void compare_with_labels(const Dims& out) {
    values_.target =
        graph_.add_value("labels", ValueKind::kInput, Dims(out.begin(), out.end() - 1), RT_INT32);
    values_.loss = cross_entropy();
    if (input_.form.purpose != Purpose::kEvaluation) return;
    values_.correct = build_.correct_count(values_.output, values_.target, values_.weight);
    graph_.value(values_.correct).kind = ValueKind::kOutput;
  }

  // With label smoothing s: (1 - s) * cross entropy to the label + s * cross entropy to the uniform
  // distribution.
  ValueId cross_entropy() {
    const double smoothing = input_.training.loss.label_smoothing;
    if (smoothing == 0) return build_.cross_entropy(values_.output, values_.target, values_.weight);
    return build_.add(
        build_.cross_entropy(values_.output, values_.target, share_of_weight(1 - smoothing)),
        build_.node1(graph::kUniformCrossEntropy, {values_.output, share_of_weight(smoothing)},
                     {1}));
  }

  ValueId share_of_weight(double factor) {
    return build_.node1(graph::kShareOfWeight, {values_.weight},
                        Dims(graph_.value(values_.weight).dims), {{graph::kFactor, factor}});
  }

  void compare_with_targets() {
    values_.target = graph_.add_value("targets", ValueKind::kInput,
                                      {input_.form.rows, input_.training.targets}, dtype_);
    const LossSpec& loss = input_.training.loss;
    values_.loss = loss_of_numbers(find_row("training.loss", loss.name, config::losses()),
                                   loss.attributes, values_.output, values_.target, values_.weight);
  }

  ValueId loss_of_numbers(const config::Loss& row, const config::AttributeValues& given,
                          ValueId output, ValueId target, ValueId weight) {
    std::vector<graph::Attribute> attributes;
    for (const auto& [attribute, value] : given) attributes.push_back({attribute, value});
    std::string op = row.name;  // of the contract
    if (!row.formula.empty()) {
      op.insert(0, graph::kOwnOperation);
      add_operation(graph_, make_open_loss(op, row.formula, row.gradient, attributes));
    }
    return build_.regression_loss(op, output, target, weight, std::move(attributes));
  }

  // Outside training nothing reads their losses, and a later pass removes them; a pipeline still
  // sends what they compare to its last stage.
  void add_heads(bool backward) {
    for (const model::HeadOutput& head : values_.heads) {
      const ValueId weight = weight_of(head);
      const config::Loss& row = find_row("loss", head.loss, config::losses());
      const ValueId loss =
          row.of_classes() ? build_.cross_entropy(head.output, head.target, weight)
                           : loss_of_numbers(row, config::attributes_of(row, config::Training()),
                                             head.output, head.target, weight);
      if (backward) values_.loss = build_.add(values_.loss, loss);
    }
  }

  // A sample has the weight of its labels together in the loss of a head with one label a sample.
  ValueId weight_of(const model::HeadOutput& head) {
    const Dims own = graph_.value(values_.weight).dims;
    const Dims out = graph_.value(head.output).dims;
    const Dims rows(out.begin(), out.size() == 2 ? out.begin() + 1 : out.end() - 1);
    if (rows == own) return share_of_weight(head.weight);
    if (rows.size() == 1 && own.size() == 2) {
      const ValueId sums = build_.node1(graph::kWeightOfSamples, {values_.weight}, {own[0], 1},
                                        {{graph::kFactor, head.weight}});
      return graph_.reshape(sums, rows);
    }
    throw ConfigurationError("layer '" + head.layer + "' gives " + graph::to_string(out) +
                             ", with labels " + graph::to_string(rows) +
                             ", the labels of the data set are " + graph::to_string(own) +
                             "; an auxiliary_head needs one label a sample, or as many as the "
                             "data set has");
  }

  // Makes the predictions an output. If they are a view (the output of a flatten), the caller gets
  // a copy, because the memory of the base is reused after its last reader.
  void keep_predictions() {
    if (graph_.storage(values_.output) != values_.output) {
      const ValueId copy = graph_.add_value("", ValueKind::kTemporary,
                                            Dims(graph_.value(values_.output).dims), dtype_);
      build_.node_into(RT_OP_COPY, {values_.output}, {copy});
      values_.output = copy;
    }
    graph_.value(values_.output).kind = ValueKind::kOutput;
  }

  void add_l2() {
    for (const model::Parameter& p : values_.parameters) {
      if (p.l2 == 0) continue;
      const ValueId penalty = build_.scale(build_.square_sum(p.value), p.l2 * input_.form.l2_share);
      values_.loss = build_.add(values_.loss, penalty);
    }
  }

  Graph& graph_;
  StepValues& values_;
  const StepInput& input_;
  const rt_dtype dtype_;
  graph::Build build_;
};

void check_predictions(const Step& step, const TrainingSpec& training) {
  if (!training.loss.of_classes) return;
  const Dims& out = step.graph.value(step.values.output).dims;
  const int64_t predictions = graph::element_count(out) / (out[0] * out.back());
  if (predictions != training.labels) {
    throw ConfigurationError(
        "the model's output is " + graph::to_string(out) + ", " + std::to_string(predictions) +
        (predictions == 1 ? " prediction" : " predictions") + " a sample, the data set has " +
        std::to_string(training.labels) + (training.labels == 1 ? " label" : " labels") +
        " a sample; a language model keeps the positions of its input, a classifier ends with "
        "vectors");
  }
  if (step.values.predictions < training.classes) {
    throw ConfigurationError("the model's last layer has " +
                             std::to_string(step.values.predictions) + " outputs, the data set " +
                             std::to_string(training.classes) +
                             " classes; set model.outputs = " + std::to_string(training.classes) +
                             ", or give the last layer at least that many features");
  }
}

// Checks that token ids are below the number of rows of the table in which they are looked up.
void check_tokens(const Step& step, const TrainingSpec& training) {
  if (training.vocabulary == 0) return;
  ValueId tokens = step.values.features;  // the input as integers
  for (const graph::Node& node : step.graph.nodes) {
    const graph::Operation& operation = operation_of(step.graph, node);
    if (operation.kind == graph::Kind::kConverts && node.inputs[0] == step.values.features)
      tokens = node.outputs[0];
    if (operation.forward.split != graph::SplitRule::kTable || node.inputs[0] != tokens) continue;
    const int64_t rows = step.graph.value(node.inputs[1]).dims[0];
    if (rows >= training.vocabulary) continue;
    throw ConfigurationError(
        "layer '" + node.layer + "' has a vocabulary of " + std::to_string(rows) +
        ", the data set " + std::to_string(training.vocabulary) +
        " different tokens; give the layer at least that vocabulary, or set "
        "model.outputs = " +
        std::to_string(training.vocabulary) + " where the last layer is tied to it");
  }
}

// Checks that the tables in which an input is looked up have the rows that it names.
void check_rows(const Step& step, const model::NamedInput& input,
                const TrainingSpec::Input& given) {
  for (const graph::Node& node : step.graph.nodes) {
    const graph::SplitRule split = operation_of(step.graph, node).forward.split;
    if (split != graph::SplitRule::kTable || node.inputs[0] != input.value) continue;
    const int64_t rows = step.graph.value(node.inputs[1]).dims[0];
    if (given.least >= 0 && given.most < rows) continue;
    throw ConfigurationError("layer '" + node.layer + "' has a table of " + std::to_string(rows) +
                             " rows, the input \"" + input.name +
                             "\" of the data set the numbers " + std::to_string(given.least) +
                             " to " + std::to_string(given.most) +
                             "; expected numbers from 0 and below the rows: raise the vocabulary "
                             "of the layer, or correct the data");
  }
}

// Checks that the labels of an auxiliary head are among its classes.
void check_head(const Step& step, const model::NamedInput& input,
                const TrainingSpec::Input& given) {
  for (const model::HeadOutput& head : step.values.heads) {
    if (step.graph.storage(head.target) != input.value || !given.integers) continue;
    const int64_t classes = step.graph.value(head.output).dims.back();
    if (given.least >= 0 && given.most < classes) continue;
    throw ConfigurationError(
        "layer '" + head.layer + "' gives " + std::to_string(classes) +
        " classes, its target, the input \"" + input.name + "\" of the data set, has the labels " +
        std::to_string(given.least) + " to " + std::to_string(given.most) +
        "; expected labels from 0 and below the classes: give its last layer more features, or "
        "correct the data");
  }
}

// Checks that the samples have the inputs that the model reads.
void check_inputs(const Step& step, const TrainingSpec& training) {
  const auto text = [](const Dims& dims, bool integers) {
    return graph::to_string(dims) + (integers ? " of integers" : " of numbers");
  };
  for (const model::NamedInput& input : step.values.inputs) {
    const graph::Value& value = step.graph.value(input.value);
    const Dims wanted(value.dims.begin() + 1, value.dims.end());
    const bool integers = value.dtype == RT_INT32;
    std::string names;
    const TrainingSpec::Input* found = nullptr;
    for (const TrainingSpec::Input& given : training.inputs) {
      if (given.name == input.name) found = &given;
      names += (names.empty() ? "" : ", ") + given.name;
    }
    if (found == nullptr) {
      throw ConfigurationError(
          "the model reads the input \"" + input.name + "\", the data set has " +
          (names.empty() ? "no named inputs" : "only " + names) +
          "; name it in a table [[dataset.input]], or set dataset.separator for the documents and "
          "positions of a text");
    }
    if (found->dims == wanted && found->integers == integers) {
      check_rows(step, input, *found);
      check_head(step, input, *found);
      continue;
    }
    throw ConfigurationError("the model reads the input \"" + input.name + "\" as " +
                             text(wanted, integers) + " a sample, the data set has " +
                             text(found->dims, found->integers) +
                             "; change the layer, or the [[dataset.input]]");
  }
}

}  // namespace

void forward(Step& step, const StepInput& input) {
  model::NetworkOptions network;
  network.batch = input.form.rows;
  network.dtype = input.strategy.precision.parameters;
  network.training = input.form.backward();
  network.seed = input.training.seed;
  network.split_batch_norm = input.form.split_batch_norm;
  if (input.form.purpose == Purpose::kPrompt) network.cache = model::CacheUse::kFill;
  if (input.form.purpose == Purpose::kToken) network.cache = model::CacheUse::kExtend;
  model::Network net = model::build_network(input.model, network);
  step.graph = std::move(net.graph);
  StepValues& v = step.values;
  v.features = net.features;
  v.inputs = std::move(net.inputs);
  v.output = net.output;
  v.heads = std::move(net.heads);
  v.dropout_step = net.step;
  v.sample_base = net.sample_base;
  v.real = net.real;
  v.cache = std::move(net.cache);
  v.parameters = std::move(net.parameters);
  v.blocks = std::move(net.blocks);
  v.stages = std::move(net.stages);
  v.shard_hints = std::move(net.shards);
}

// A batch normalisation of one value per channel learns nothing from its input. Those that are
// split among ranks or leave out padding count their values in the step itself.
void note_single_values(Step& step) {
  for (const graph::Node& node : step.graph.nodes) {
    if (node.op != RT_OP_BATCH_NORM) continue;
    const graph::Dims& dims = step.graph.value(node.inputs[0]).dims;
    if (graph::element_count(dims) != dims.back()) continue;
    step.notes.push_back(
        "layer '" + node.layer +
        "' normalises one value per channel in a training step: a single sample of one position "
        "has the variance 0, so that the layer gives its bias whatever the input is, passes no "
        "gradient on and moves its running variance towards 0 (PyTorch refuses it: \"Expected more "
        "than 1 value per channel when training\"); use larger batches or micro-batches, "
        "dataset.last_batch = \"drop\", parallelism.sync_batch_norm, or layer_norm");
    return;
  }
}

void add_loss(Step& step, const StepInput& input) { Loss(step, input).run(); }

void check_task(Step& step, const StepInput& input) {
  if (input.form.purpose == Purpose::kToken) return;  // it has the shapes of one token
  if (input.form.backward()) note_single_values(step);
  check_predictions(step, input.training);
  check_tokens(step, input.training);
  check_inputs(step, input.training);
  if (!input.strategy.recompute_blocks || !step.values.blocks.empty()) return;
  throw ConfigurationError(
      "training.recompute = \"blocks\", but the model has neither a residual nor a repeated block "
      "with prefix = true; set it to \"none\", or repeat a block of layers");
}

void narrow_activations(Step& step, const StepInput& input) {
  const Precision& precision = input.strategy.precision;
  if (precision.activations == 0) return;
  graph::narrow_activations(step.graph, precision.activations);
  ValueId& output = step.values.output;
  if (step.graph.value(output).kind != ValueKind::kOutput) return;
  const std::string name = step.graph.value(output).name;
  step.graph.value(output).kind = ValueKind::kTemporary;
  graph::Build build(step.graph);
  build.layer = "loss";
  output = build.cast(output, precision.parameters);
  keep_output(step.graph, output, name);
}

void fold_batch_norms(Step& step, const StepInput& input) {
  if (input.form.backward() || input.strategy.zero_partitions(3)) return;
  graph::fold_batch_norms(step.graph);
}

void keep_output(Graph& graph, ValueId value, const std::string& name) {
  graph.value(value).kind = ValueKind::kOutput;
  graph.value(value).name = name;
}

}  // namespace runtime::step
