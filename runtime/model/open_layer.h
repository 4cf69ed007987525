// A layer whose operation a plugin brings: its parameters, by the signature of the operation.
#ifndef RUNTIME_MODEL_OPEN_LAYER_H_
#define RUNTIME_MODEL_OPEN_LAYER_H_

#include <string>
#include <vector>

#include "runtime/config/open_operation.h"
#include "runtime/graph/open_nodes.h"
#include "runtime/graph/signature.h"

namespace runtime::model {

// What follows from the operation, its attributes and the dims of the layer's input.
class OpenLayer {
 public:
  struct Parameter {
    std::string name;  // of the operand
    graph::Dims dims;
    bool constant = false;
    double value = 0;
  };

  // `layer` is the name of the layer. Throws ConfigurationError if the operation has no such input,
  // and DeviceError, which names the plugin and the operation, if its signature is wrong.
  OpenLayer(const config::OpenOperation& operation, const config::AttributeValues& attributes,
            const graph::Dims& input, const std::string& layer);

  const graph::OpenOperation& operation() const { return made_; }
  const std::vector<graph::Attribute>& attributes() const { return attributes_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // Throws DeviceError unless the output has a row for each sample, as the input has.
  void check_output(const graph::Dims& output) const;

 private:
  // What the names of the signature stand for with an input of these dims.
  graph::NamedDims names_for(const graph::Dims& input) const;
  graph::Dims dims_of(const graph::SignatureOperand& operand, const graph::NamedDims& names,
                      const graph::NamedDims& other_batch) const;
  int64_t attribute(const std::string& name) const;
  void add_parameter(const graph::SignatureOperand& operand, graph::Dims dims);

  const config::OpenOperation& operation_;
  const config::AttributeValues& values_;
  graph::Dims input_;
  std::string layer_;
  graph::OpenOperation made_;
  graph::Signature signature_;
  std::vector<graph::Attribute> attributes_;
  std::vector<Parameter> parameters_;
};

// The operation of a plugin as a row of a graph. Throws DeviceError as OpenLayer does.
graph::OpenOperation to_graph(const config::OpenOperation& operation);

}  // namespace runtime::model

#endif  // RUNTIME_MODEL_OPEN_LAYER_H_
