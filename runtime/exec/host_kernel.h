// Runs operations of graph/host_operations.h: the host computes them between two launches.
#ifndef RUNTIME_EXEC_HOST_KERNEL_H_
#define RUNTIME_EXEC_HOST_KERNEL_H_

#include <vector>

#include "plugins/host/device.h"
#include "runtime/graph/graph.h"

namespace runtime::exec {

// The kernel of one node. It reads the node's inputs from the device, which waits for the stream,
// so that it is slower than any kernel of a device. One thread at a time.
class HostKernel {
 public:
  // Throws InternalError if the host knows no such operation.
  HostKernel(const graph::Graph& graph, const graph::Node& node);
  // `inputs` and `output` are addresses on the device of the stream. Queues the copy of the output.
  void launch(plugins::host::Stream& stream, const std::vector<const void*>& inputs, void* output);

 private:
  std::vector<std::vector<std::byte>> read(plugins::host::Stream& stream,
                                           const std::vector<const void*>& inputs) const;
  std::vector<double> compute(const std::vector<std::vector<double>>& inputs) const;

  graph::Node node_;
  std::vector<graph::Value> input_values_;
  graph::Value output_value_;
  std::vector<std::byte> output_;  // the source of the last copy
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_HOST_KERNEL_H_
