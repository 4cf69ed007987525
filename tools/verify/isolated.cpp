// Copies an operation's operands to a device, runs it in buffers of its own, and reads the results.
#include "tools/verify/isolated.h"

#include <algorithm>

#include "plugins/host/drain.h"
#include "plugins/host/launch.h"
#include "runtime/error.h"
#include "runtime/exec/layout_copy.h"

namespace runtime::verify {

namespace {

using plugins::host::Device;
using plugins::host::Memory;
using plugins::host::Operation;

// The value of every byte that nothing was written to; four or eight such bytes are a NaN.
constexpr int kUnwritten = 0xFF;

// One operation and its buffers on a device.
class Execution {
 public:
  Execution(plugins::host::Stream& stream, const Operation& operation)
      : stream_(stream),
        operation_(operation),
        copies_(stream),
        kernel_(stream.device(), operation) {}

  const plugins::host::Kernel& kernel() const { return kernel_; }
  const Memory& saved() const { return saved_; }

  void load(const HostTensors& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs_.push_back(buffer(layout_bytes(operation_.inputs[i])));
      copies_.write(operation_.inputs[i], inputs_.back().data(), inputs[i].bytes);
    }
  }

  // `saved` is what the forward has saved. If it is null, the operation saves into memory of its
  // own.
  void run(const std::vector<std::pair<uint32_t, uint32_t>>& in_place, const Memory* saved) {
    place_outputs(in_place);
    if (saved == nullptr && kernel_.info().saved_bytes > 0)
      saved_ = buffer(kernel_.info().saved_bytes);
    const Memory workspace =
        kernel_.info().workspace_bytes > 0 ? buffer(kernel_.info().workspace_bytes) : Memory();
    std::vector<const void*> inputs;
    for (const Memory& memory : inputs_) inputs.push_back(memory.data());
    const rt_launch launch = plugins::host::make_launch(
        inputs, addresses_, workspace.data(), saved != nullptr ? saved->data() : saved_.data());
    const plugins::host::Drain drain(stream_);  // `workspace` is freed here
    kernel_.launch(stream_, launch);
    stream_.synchronize();
  }

  HostTensors results() {
    HostTensors results;
    for (size_t j = 0; j < addresses_.size(); ++j) {
      const rt_tensor_desc& tensor = operation_.outputs[j];
      auto bytes = copies_.read(tensor, addresses_[j]);
      if (!bytes) {
        throw DeviceError(stream_.device()->id() + " writes output " + std::to_string(j) + " of " +
                          operation_.name +
                          " in a layout that it does not copy to the canonical one; try another "
                          "candidate");
      }
      results.push_back({tensor.dtype, dims_of(tensor), std::move(*bytes)});
    }
    return results;
  }

 private:
  uint64_t layout_bytes(const rt_tensor_desc& tensor) const {
    return tensor.layout == RT_LAYOUT_CANONICAL ? exec::canonical_bytes(tensor)
                                                : stream_.device()->layout_bytes(tensor);
  }

  Memory buffer(uint64_t bytes) {
    Memory memory = stream_.device()->allocate(std::max<uint64_t>(bytes, 1));
    stream_.fill(memory.data(), kUnwritten, memory.bytes());
    return memory;
  }

  void place_outputs(const std::vector<std::pair<uint32_t, uint32_t>>& in_place) {
    for (uint32_t j = 0; j < operation_.outputs.size(); ++j) {
      const auto shared = std::find_if(in_place.begin(), in_place.end(),
                                       [&](const auto& p) { return p.first == j; });
      const uint64_t bytes = layout_bytes(operation_.outputs[j]);
      if (shared != in_place.end() && (kernel_.info().in_place[j] >> shared->second & 1) != 0 &&
          bytes == layout_bytes(operation_.inputs[shared->second])) {
        addresses_.push_back(inputs_[shared->second].data());
        continue;
      }
      outputs_.push_back(buffer(bytes));
      addresses_.push_back(outputs_.back().data());
    }
  }

  plugins::host::Stream& stream_;
  const Operation& operation_;
  exec::LayoutCopy copies_;
  plugins::host::Kernel kernel_;
  std::vector<Memory> inputs_, outputs_;
  std::vector<void*> addresses_;  // of the outputs
  Memory saved_;
  plugins::host::Drain drain_{stream_};  // last: the work of the stream uses everything above
};

void make_canonical(Operation& operation) {
  for (auto* tensors : {&operation.inputs, &operation.outputs}) {
    for (rt_tensor_desc& tensor : *tensors) tensor.layout = RT_LAYOUT_CANONICAL;
  }
  operation.algorithm = 0;
}

}  // namespace

std::vector<int64_t> dims_of(const rt_tensor_desc& tensor) {
  return {tensor.dims, tensor.dims + tensor.rank};
}

graph::Kind kind_of(const Operation& operation) {
  const graph::Operation* const row = graph::find_operation(operation.name);
  return row == nullptr ? graph::Kind::kOpaque : row->kind;
}

IsolatedOperation in_canonical_layouts(IsolatedOperation isolated) {
  make_canonical(isolated.operation);
  if (isolated.forward) make_canonical(*isolated.forward);
  return isolated;
}

IsolatedResult run_isolated(const std::shared_ptr<Device>& device,
                            const IsolatedOperation& isolated) {
  plugins::host::Stream stream = device->create_stream();
  std::optional<Execution> forward;
  Operation operation = isolated.operation;
  if (isolated.forward) {
    forward.emplace(stream, *isolated.forward);
    forward->load(isolated.forward_inputs);
    forward->run({}, nullptr);
    operation.forward = forward->kernel().get();
  }
  Execution execution(stream, operation);
  execution.load(isolated.inputs);
  execution.run(isolated.in_place, forward ? &forward->saved() : nullptr);
  return {execution.results(), execution.kernel().info().implementation};
}

}  // namespace runtime::verify
