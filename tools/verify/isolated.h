// One operation with everything that it needs to run alone, on any device.
#ifndef TOOLS_VERIFY_ISOLATED_H_
#define TOOLS_VERIFY_ISOLATED_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/host/device.h"
#include "runtime/data/safetensors.h"
#include "runtime/graph/operation.h"

namespace runtime::verify {

// Tensors in host memory, one for each operand.
using HostTensors = std::vector<data::HostTensor>;

// An operation and its operands. The tensors are in canonical layouts; the descriptions have the
// layouts and the algorithm of a candidate.
struct IsolatedOperation {
  plugins::host::Operation operation;  // its `forward` plan is null
  HostTensors inputs;
  // The forward operation, if this is the backward of an operation that saves something.
  std::optional<plugins::host::Operation> forward = std::nullopt;
  HostTensors forward_inputs = {};
  // Pairs of an output and the input in whose memory it is computed, if the plan allows it.
  std::vector<std::pair<uint32_t, uint32_t>> in_place = {};
};

// Returns the same operation with canonical layouts and with the algorithm that the device chooses
// itself.
IsolatedOperation in_canonical_layouts(IsolatedOperation isolated);

// Returns an attribute of the operation, or nothing if it has none of that name and type.
template <class T>
std::optional<T> attribute(const plugins::host::Operation& operation, const char* name) {
  for (const plugins::host::Attribute& a : operation.attributes) {
    if (const T* const value = std::get_if<T>(&a.value); value != nullptr && a.name == name)
      return *value;
  }
  return std::nullopt;
}

// Returns what graph/operation.h says about the operation; kOpaque if it is a plugin's.
graph::Kind kind_of(const plugins::host::Operation& operation);

// Returns the dimensions of a description.
std::vector<int64_t> dims_of(const rt_tensor_desc& tensor);

// What run_isolated() has computed.
struct IsolatedResult {
  HostTensors outputs;  // in canonical layouts
  std::string implementation;
};

// Runs the operation in memory of its own, after its forward if it has one. Elements that an
// operation does not write are NaN. Throws plugins::host::Error if the device refuses the
// operation, and DeviceError if the device cannot copy an output out of its layout.
IsolatedResult run_isolated(const std::shared_ptr<plugins::host::Device>& device,
                            const IsolatedOperation& isolated);

}  // namespace runtime::verify

#endif  // TOOLS_VERIFY_ISOLATED_H_
