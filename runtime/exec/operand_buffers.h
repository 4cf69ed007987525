// Device memory for the operands of an operation, by the names that its definition gives them.
#ifndef RUNTIME_EXEC_OPERAND_BUFFERS_H_
#define RUNTIME_EXEC_OPERAND_BUFFERS_H_

#include <map>
#include <string>
#include <vector>

#include "plugins/host/device.h"

namespace runtime::exec {

// Names of the inputs and outputs of an operation, each once, except that an output in the memory
// of an input has the name of that input. Operands that the contract does not name, those of
// post-operations and of operations of plugins, have a number.
struct OperandNames {
  explicit OperandNames(const plugins::host::Operation& operation);
  std::vector<std::string> inputs, outputs;
};

// The forward operation in the layouts that go with those of its backward operation: an operand
// that both have, or whose gradient the backward operation has, has the layout that it has there,
// and the device may choose those of the others.
plugins::host::Operation in_layouts_of(plugins::host::Operation forward,
                                       const plugins::host::Operation& backward);

// Buffers that the candidates of one operation use one after the other. They are uninitialised.
class OperandBuffers {
 public:
  // A buffer of this name is to have so many bytes, or more if it needs more elsewhere.
  void need(const std::string& name, uint64_t bytes);
  // Allocates what is needed. Throws plugins::host::Error where memory is missing.
  void allocate(plugins::host::Device& device);
  // The address of a buffer, null for a name that nobody needs.
  void* at(const std::string& name) const;
  // Its bytes, at least 1.
  uint64_t bytes(const std::string& name) const { return bytes_.at(name); }

 private:
  std::map<std::string, uint64_t> bytes_;
  std::map<std::string, plugins::host::Memory> memory_;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_OPERAND_BUFFERS_H_
