// One operation with all that it needs to run alone, on any device.
#ifndef RUNTIME_ANALYSIS_ISOLATED_H_
#define RUNTIME_ANALYSIS_ISOLATED_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/host/device.h"
#include "runtime/data/safetensors.h"

namespace runtime::analysis {

using HostTensors = std::vector<data::HostTensor>;

// Tensors are canonical; the descriptions have the layouts and the algorithm of a candidate.
struct IsolatedOperation {
  plugins::host::Operation operation;  // its `forward` plan is null
  HostTensors inputs;
  // The forward operation, where this is the backward of one that saves something.
  std::optional<plugins::host::Operation> forward = std::nullopt;
  HostTensors forward_inputs = {};
  // Output and the input whose memory it takes; used where the plan allows it.
  std::vector<std::pair<uint32_t, uint32_t>> in_place = {};
};

// The same operation in canonical layouts and in the device's own choice of algorithm.
IsolatedOperation in_canonical_layouts(IsolatedOperation isolated);

// An attribute of the operation; nullopt if it has none of that name and type.
template <class T>
std::optional<T> attribute(const plugins::host::Operation& operation, const char* name) {
  for (const plugins::host::Attribute& a : operation.attributes) {
    if (const T* const value = std::get_if<T>(&a.value); value != nullptr && a.name == name)
      return *value;
  }
  return std::nullopt;
}

// The dimensions of a description.
std::vector<int64_t> dims_of(const rt_tensor_desc& tensor);

struct IsolatedResult {
  HostTensors outputs;  // canonical
  std::string implementation;
};

// In memory of its own, after its forward where it has one. What an operation does not write is
// NaN. Throws plugins::host::Error where the device refuses, DeviceError where it does not copy an
// output out of its layout.
IsolatedResult run_isolated(const std::shared_ptr<plugins::host::Device>& device,
                            const IsolatedOperation& isolated);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_ISOLATED_H_
