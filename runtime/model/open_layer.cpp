// Matches a plugin's signature with the input of a layer, and derives parameters and output.
#include "runtime/model/open_layer.h"

#include <algorithm>

#include "runtime/error.h"

namespace runtime::model {

namespace {

using graph::Dims;
using graph::NamedDims;

constexpr int64_t kMostAlongADimension = 16777216;

config::AttributeValues by_name(const std::vector<graph::Attribute>& attributes) {
  config::AttributeValues values;
  for (const graph::Attribute& a : attributes) values[a.name] = a.value;
  return values;
}

}  // namespace

graph::OpenOperation to_graph(const config::OpenOperation& operation) {
  std::vector<std::string> attributes;
  for (const config::Key& key : operation.attributes) attributes.push_back(key.name);
  graph::OpenOperation made =
      graph::make_open_operation({operation.name, operation.signature, operation.formula},
                                 operation.gradient, operation.has_backward, attributes);
  if (operation.shape) {
    made.shape = [shape = operation.shape](const std::vector<Dims>& inputs, rt_dtype dtype,
                                           const std::vector<graph::Attribute>& values) {
      return shape(inputs, dtype, by_name(values));
    };
  }
  return made;
}

OpenLayer::OpenLayer(const config::OpenOperation& operation,
                     const config::AttributeValues& attributes, const Dims& input,
                     const std::string& layer)
    : operation_(operation),
      values_(attributes),
      input_(input),
      layer_(layer),
      made_(to_graph(operation)),
      signature_(graph::read_signature(made_.forward)) {
  for (const config::Key& key : operation.attributes)
    attributes_.push_back({key.name, attributes.at(key.name)});
  const NamedDims names = names_for(input);
  Dims other = input;
  ++other[0];
  const NamedDims other_batch = names_for(other);
  for (size_t i = 1; i < signature_.inputs.size(); ++i)
    add_parameter(signature_.inputs[i], dims_of(signature_.inputs[i], names, other_batch));
  if (parameters_.size() != operation.parameters.size())
    graph::fault(made_.forward, "has " + std::to_string(parameters_.size()) +
                                    " inputs behind the first, but " +
                                    std::to_string(operation.parameters.size()) + " parameters,");
}

NamedDims OpenLayer::names_for(const Dims& input) const {
  NamedDims names;
  const graph::SignatureOperand& x = signature_.inputs[0];
  if (graph::match(
          x, input, [this](const std::string& name) { return attribute(name); }, names))
    return names;
  throw ConfigurationError("layer '" + layer_ + "': " + operation_.name + " sees its input as " +
                           x.view_text + ", its input is " + graph::to_string(input) +
                           "; put a layer before it that gives as many dimensions");
}

int64_t OpenLayer::attribute(const std::string& name) const {
  const auto value = values_.at(name);
  return std::visit([](auto v) { return static_cast<int64_t>(v); }, value);
}

// A name stands for dims of the input or for an attribute; a parameter has no dims of the batch.
Dims OpenLayer::dims_of(const graph::SignatureOperand& operand, const NamedDims& names,
                        const NamedDims& other_batch) const {
  Dims dims;
  for (const graph::ViewItem& item : operand.view) {
    if (item.name.empty()) continue;
    const auto known = names.find(item.name);
    if (known != names.end() && other_batch.at(item.name) != known->second)
      graph::fault(made_.forward, "makes parameter '" + operand.name +
                                      "' depend on the batch, by '" + item.name + "',");
    if (known != names.end()) {
      dims.insert(dims.end(), known->second.begin(), known->second.end());
    } else if (values_.contains(item.name)) {
      dims.push_back(attribute(item.name));
    } else {
      graph::fault(made_.forward, "gives no size of '" + item.name +
                                      "', a dimension of parameter '" + operand.name + "',");
    }
  }
  return dims;
}

void OpenLayer::add_parameter(const graph::SignatureOperand& operand, Dims dims) {
  const auto spec =
      std::find_if(operation_.parameters.begin(), operation_.parameters.end(),
                   [&](const config::OpenParameter& p) { return p.name == operand.name; });
  if (spec == operation_.parameters.end())
    graph::fault(made_.forward, "has the input '" + operand.name + "', which is no parameter,");
  if (dims.empty()) dims = {1};
  for (const int64_t d : dims) {
    if (d >= 1 && d <= kMostAlongADimension) continue;
    throw ConfigurationError("layer '" + layer_ + "': parameter '" + operand.name + "' would be " +
                             graph::to_string(dims) + ", expected dimensions from 1 to " +
                             std::to_string(kMostAlongADimension) + "; change the keys of " +
                             operation_.name);
  }
  parameters_.push_back({operand.name, std::move(dims), spec->constant, spec->value});
}

void OpenLayer::check_output(const Dims& output) const {
  if (!output.empty() && output[0] == input_[0]) return;
  graph::fault(made_.forward, "gives an output " + graph::to_string(output) + " for an input " +
                                  graph::to_string(input_) +
                                  ", but the first dimension is that of the samples,");
}

}  // namespace runtime::model
