// Reads a step of another framework: its batch, its weights, and the values that a trace of the
// same step has, from PyTorch's names and layouts.
#include "tools/verify/foreign_record.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "runtime/error.h"
#include "runtime/graph/operation_set.h"
#include "runtime/model/network.h"
#include "runtime/train/options.h"
#include "runtime/train/rank/step_programs.h"
#include "runtime/train/weights.h"

namespace runtime::verify {

using data::HostTensor;
using graph::Dims;
using graph::kNone;

namespace {

constexpr std::string_view kRecordedInput = "input", kNamedInputPrefix = "inputs.",
                           kRecordedTarget = "target", kRecordedLoss = "loss";
constexpr std::string_view kWeightPrefix = "weights.", kOutputPrefix = "output.",
                           kGradientPrefix = "gradient.", kUpdatedPrefix = "updated.";

[[noreturn]] void refuse(const std::string& path, const std::string& name, const std::string& what,
                         const std::string& expected) {
  throw DataError(path + ": '" + name + "' " + what + "; expected " + expected +
                  "; record the step again with the model and the batch of the configuration "
                  "(runtime/analysis/README.md has the names and layouts)");
}

// PyTorch's [N, C, H, W] of what is [N, H, W, C] here; other dims are the same.
Dims file_dims(const Dims& dims) {
  return dims.size() == 4 ? Dims{dims[0], dims[3], dims[1], dims[2]} : dims;
}

// The tensor in our layout. Throws unless it has PyTorch's dims of a value of `dims`.
HostTensor canonical(const std::string& path, const std::string& name, const HostTensor& tensor,
                     const Dims& dims) {
  if (tensor.dims != file_dims(dims))
    refuse(path, name, "is " + graph::to_string(tensor.dims), graph::to_string(file_dims(dims)));
  if (dims.size() != 4) return tensor;
  HostTensor result{tensor.dtype, dims, std::vector<std::byte>(tensor.bytes.size())};
  const uint64_t element = graph::dtype_bytes(tensor.dtype);
  const int64_t pixels = dims[1] * dims[2], channels = dims[3];
  for (int64_t from = 0; from < dims[0] * channels * pixels; ++from) {
    const int64_t sample = from / (channels * pixels), channel = from / pixels % channels;
    const int64_t to = (sample * pixels + from % pixels) * channels + channel;
    std::memcpy(&result.bytes[to * element], &tensor.bytes[from * element], element);
  }
  return result;
}

// The tensor's numbers, which have to be integers from `ignored`, if that is negative, or 0 ..
// most.
std::vector<double> integers(const std::string& path, const std::string& name,
                             const HostTensor& tensor, int64_t most, int32_t ignored = 0) {
  std::vector<double> numbers = train::numbers_of(tensor);
  for (const double x : numbers) {
    const bool right = x == ignored || (x >= 0 && x <= static_cast<double>(most));
    if (!right || x != std::floor(x))
      refuse(path, name, "has the number " + std::to_string(x),
             "integers from 0 to " + std::to_string(most));
  }
  return numbers;
}

// The number of rows of the smallest table in which the model looks up its features; 0: it looks up
// nothing.
int64_t vocabulary(const model::Network& network) {
  const graph::Graph& graph = network.graph;
  int64_t least = 0;
  for (const graph::Node& node : graph.nodes) {
    if (graph::operation_of(graph, node).forward.split != graph::SplitRule::kTable) continue;
    const bool named =
        std::any_of(network.inputs.begin(), network.inputs.end(),
                    [&](const model::NamedInput& input) { return input.value == node.inputs[0]; });
    if (named) continue;
    const int64_t rows = graph.value(node.inputs[1]).dims[0];
    least = least == 0 ? rows : std::min(least, rows);
  }
  return least;
}

// Sets the weight of all labels of a batch.
void weigh(const data::LabelWeights& weights, const data::SampleSpec& spec, data::Batch& batch) {
  if (!weights.any()) return;
  const data::LabelWeighing weighing(weights, spec, batch);
  double sum = 0;
  for (int64_t i = 0; i < batch.rows * spec.labels; ++i)
    sum += weighing(i / spec.labels, i % spec.labels);
  batch.weight = sum / static_cast<double>(spec.labels);
}

model::Network network_of(train::StepPrograms& programs, const step::StepForm& form) {
  model::NetworkOptions options;
  options.batch = form.rows;
  options.dtype = programs.setup().dtype();
  options.split_batch_norm = form.split_batch_norm;
  return model::build_network(programs.setup().model, options);
}

// The value of "LAYER", which is what the layer computes before its activation, or of
// "LAYER.OPERATION"; kNone if the graph has none.
graph::ValueId value_of(const graph::Graph& graph, const std::string& name) {
  graph::ValueId of_layer = kNone, of_operation = kNone;
  for (const graph::Node& node : graph.nodes) {
    if (node.layer == name && (of_layer == kNone || node.op != RT_OP_ACTIVATION))
      of_layer = node.outputs[0];
    if (node.layer + "." + node.op == name) of_operation = node.outputs[0];
  }
  return of_layer != kNone ? of_layer : of_operation;
}

// Adds the layers' outputs, by the names of a trace.
class Values {
 public:
  Values(std::string path, train::StepPrograms& programs, const step::StepForm& form)
      : path_(std::move(path)),
        program_(programs.compiled(form)),
        network_(network_of(programs, form)),
        names_(value_names(program_.graph(), program_.values.first_added)) {}

  void add_output(const std::string& name, const HostTensor& tensor) {
    const graph::ValueId id = value_of(network_.graph, name.substr(kOutputPrefix.size()));
    if (id == kNone)
      refuse(path_, name, "is no layer of the model, or a layer without this operation",
             "output.LAYER or output.LAYER.OPERATION, as `runtime model CONFIG` lists them");
    add(id, name, canonical(path_, name, tensor, network_.graph.value(id).dims));
  }
  void add_loss(const std::string& name, HostTensor tensor) {
    if (graph::element_count(tensor.dims) != 1)
      refuse(path_, name, "is " + graph::to_string(tensor.dims), "one number");
    tensor.dims = {1};
    add(program_.values.loss, name, std::move(tensor));
  }
  // The gradient or the new value of the parameter that is called name.substr(prefix.size()).
  void add_parameter(const std::string& name, std::string_view prefix, const HostTensor& tensor) {
    const auto& all = program_.values.parameters;
    for (size_t i = 0; i < all.size(); ++i) {
      const model::Parameter& p = all[i];
      if (p.name != name.substr(prefix.size())) continue;
      const graph::ValueId id = prefix == kGradientPrefix ? program_.values.gradients[i] : p.value;
      if (id == kNone) refuse(path_, name, "is of a parameter that is not trained", "none");
      if (tensor.dims != p.file_dims)
        refuse(path_, name, "is " + graph::to_string(tensor.dims), graph::to_string(p.file_dims));
      const Dims& dims = program_.graph().value(p.value).dims;
      add(id, name,
          {tensor.dtype, dims,
           train::from_file_order(p, tensor.bytes, graph::dtype_bytes(tensor.dtype))});
      return;
    }
    refuse(path_, name, "is of no parameter of the model", "one of: " + parameter_names());
  }
  Tensors take() { return std::move(values_); }

 private:
  void add(graph::ValueId id, const std::string& name, HostTensor tensor) {
    if (!train::is_floating(tensor.dtype)) refuse(path_, name, "has integers", "floating numbers");
    values_[names_.at(id)] = std::move(tensor);
  }
  std::string parameter_names() const {
    constexpr size_t kMost = 20;
    const auto& all = program_.values.parameters;
    std::string names;
    for (size_t i = 0; i < std::min(all.size(), kMost); ++i)
      names += (i > 0 ? ", " : "") + all[i].name;
    return all.size() > kMost ? names + ", ..." : names;
  }

  std::string path_;
  const train::StepProgram& program_;
  model::Network network_;
  std::vector<std::string> names_;
  Tensors values_;
};

}  // namespace

ForeignRecord::ForeignRecord(data::TensorFile file, std::string path)
    : file_(std::move(file)), path_(std::move(path)) {
  for (const auto& [name, tensor] : file_.tensors) {
    bool known = name == kRecordedInput || name == kRecordedTarget || name == kRecordedLoss;
    for (const std::string_view prefix :
         {kNamedInputPrefix, kWeightPrefix, kOutputPrefix, kGradientPrefix, kUpdatedPrefix})
      known = known || name.starts_with(prefix);
    if (!known)
      refuse(path_, name, "is no name of a record",
             "input, target, loss, inputs.NAME, weights.NAME, output.LAYER, gradient.NAME, "
             "updated.NAME, or a "
             "file that `runtime verify --record` has written");
  }
  if ((find("input") == nullptr) != (find("target") == nullptr))
    refuse(path_, "input, target", "are not both there", "both, or none of them");
}

const HostTensor* ForeignRecord::find(const std::string& name) const {
  const auto it = file_.tensors.find(name);
  return it == file_.tensors.end() ? nullptr : &it->second;
}

int64_t ForeignRecord::rows() const {
  const HostTensor* const input = find("input");
  if (input == nullptr) return 0;
  if (input->dims.empty() || input->dims[0] < 1)
    refuse(path_, "input", "is " + graph::to_string(input->dims), "at least one sample");
  return input->dims[0];
}

// The inputs that the model does not read stay zeros.
void ForeignRecord::read_inputs(const model::Network& network, const data::SampleSpec& spec,
                                data::Batch& batch) const {
  for (const model::NamedInput& read : network.inputs) {
    const size_t place = *spec.find_input(read.name);
    const data::SampleInput& input = spec.inputs[place];
    const std::string name = std::string(kNamedInputPrefix) + input.name;
    const HostTensor* const found = find(name);
    Dims dims = input.shape;
    dims.insert(dims.begin(), rows());
    if (found == nullptr) refuse(path_, name, "is not there", "the input that the model reads");
    const HostTensor x = canonical(path_, name, *found, dims);
    const std::vector<double> numbers = train::numbers_of(x);
    if (!input.integers) {
      batch.inputs[place].floats.assign(numbers.begin(), numbers.end());
      continue;
    }
    for (const double number : numbers) {
      if (number == std::floor(number) && number >= input.least && number <= input.most) continue;
      refuse(path_, name, "has the number " + std::to_string(number),
             "integers from " + std::to_string(input.least) + " to " + std::to_string(input.most) +
                 ", as in the data set");
    }
    batch.inputs[place].integers.assign(numbers.begin(), numbers.end());
  }
}

std::optional<data::Batch> ForeignRecord::batch(train::StepPrograms& programs) const {
  if (rows() == 0) return std::nullopt;
  const data::SampleSpec& spec = programs.setup().spec;
  Dims input = spec.shape, target = {rows()};
  input.insert(input.begin(), rows());
  if (spec.classes == 0) target.push_back(spec.targets);
  if (spec.classes > 0 && spec.labels > 1) target.push_back(spec.labels);
  const HostTensor x = canonical(path_, "input", *find("input"), input);
  const HostTensor y = canonical(path_, "target", *find("target"), target);
  const step::StepForm form = programs.setup().whole(step::Purpose::kTraining, rows());
  const model::Network network = network_of(programs, form);
  const int64_t tokens = vocabulary(network);
  const std::vector<double> numbers =
      tokens > 0 ? integers(path_, "input", x, tokens - 1) : train::numbers_of(x);
  data::Batch batch = data::zero_batch(spec, rows());
  batch.features.assign(numbers.begin(), numbers.end());
  read_inputs(network, spec, batch);
  const data::LabelWeights weights = train::label_weights(programs.setup().config);
  if (spec.classes == 0) {
    const std::vector<double> targets = train::numbers_of(y);
    batch.targets.assign(targets.begin(), targets.end());
    weigh(weights, spec, batch);
    return batch;
  }
  const std::vector<double> labels =
      integers(path_, "target", y, spec.classes - 1, std::min(weights.ignored, 0));
  batch.labels.assign(labels.begin(), labels.end());
  weigh(weights, spec, batch);
  return batch;
}

data::TensorFile ForeignRecord::weights() const {
  data::TensorFile weights;
  for (const auto& [name, tensor] : file_.tensors) {
    if (name.starts_with(kWeightPrefix))
      weights.tensors[name.substr(kWeightPrefix.size())] = tensor;
  }
  return weights;
}

RecordedStep ForeignRecord::step(StepTrace& trace, train::StepPrograms& programs,
                                 const data::Batch& batch) const {
  const auto& forms = programs.forms(step::Purpose::kTraining, batch);
  if (forms.size() != 1 || programs.setup().strategy.batch.shards_of_rank() != 1 ||
      programs.setup().config.training.scales_loss()) {
    throw ConfigurationError(
        path_ +
        " has one step of a whole batch without loss scaling, and the configuration cuts or scales "
        "it; set debug.deterministic = false, no accumulation, and training.mixed_precision = "
        "\"none\" or \"bf16\"");
  }
  RecordedStep recorded;
  recorded.state = trace.state();
  recorded.batch = sum_of(batch);
  recorded.loss = std::numeric_limits<double>::quiet_NaN();
  Values values(path_, programs, forms[0]);
  for (const auto& [name, tensor] : file_.tensors) {
    if (name == kRecordedLoss) {
      values.add_loss(name, tensor);
      recorded.loss = train::numbers_of(tensor)[0];
    } else if (name.starts_with(kOutputPrefix)) {
      values.add_output(name, tensor);
    } else if (name.starts_with(kGradientPrefix)) {
      values.add_parameter(name, kGradientPrefix, tensor);
    } else if (name.starts_with(kUpdatedPrefix)) {
      values.add_parameter(name, kUpdatedPrefix, tensor);
    }
  }
  recorded.values = values.take();
  return recorded;
}

}  // namespace runtime::verify
