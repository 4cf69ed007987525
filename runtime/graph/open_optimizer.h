// Optimizers that plugins bring, as operations of the update.
#ifndef RUNTIME_GRAPH_OPEN_OPTIMIZER_H_
#define RUNTIME_GRAPH_OPEN_OPTIMIZER_H_

#include <string>
#include <vector>

#include "runtime/graph/open_nodes.h"

namespace runtime::graph {

// The operands of a plugin's optimizer behind parameters, gradients and learning rate, which are
// the first three inputs of its signature, whatever their names.
struct OptimizerOperands {
  std::vector<std::string> state;  // buffers of the size of the parameters, in their order
  bool step = false;               // whether it reads the number of the step, counted from 1
};

// Throws DeviceError, which names the plugin, the operation and the place, if the signature is none
// of an optimizer: "p[E*] g[E*] lr[1] m[E*] step {beta} -> p[E*] m[E*]".
OptimizerOperands optimizer_operands(const Formula& formula);

// The operation of the plugin's optimizer in graphs, with the name "<plugin>.<name>_update". It has
// the operands of those of update_operations.h, of which the plugin's text needs to know neither
// `scale` nor `scaled`: it sees scaled gradients, and a step with the scale 0 changes nothing.
// Throws DeviceError as above, also if an element of the text's results depends on other elements.
OpenOperation make_open_optimizer(const Formula& formula, const std::vector<Attribute>& attributes);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_OPEN_OPTIMIZER_H_
