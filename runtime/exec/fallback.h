// Runs the nodes of a program that its device refuses on another device, whose memory is that of
// the host.
#ifndef RUNTIME_EXEC_FALLBACK_H_
#define RUNTIME_EXEC_FALLBACK_H_

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "plugins/host/device.h"
#include "runtime/exec/launch_addresses.h"
#include "runtime/exec/storage.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/memory.h"

namespace runtime::exec {

// Estimated nanoseconds for `bytes` bytes between a device and the host.
double host_copy_ns(uint64_t bytes);

// What one launch of a node costs. `kernel_ns`: of the last launch, without copies; 0 before it.
struct FallbackCost {
  uint64_t bytes_to_host = 0, bytes_from_host = 0;
  double kernel_ns = 0;
};

// The nodes of one program with Node::on_fallback. A launch copies the inputs into host memory,
// waits for the stream, runs the kernel on the fallback device and queues the copies of the outputs
// on the stream. The memory is planned when the nodes are added, and allocated once: operands share
// it from node to node, and what a forward node saves keeps its place until its backward node has
// run. One thread at a time. Equivalent to: PYTORCH_ENABLE_MPS_FALLBACK of PyTorch.
class Fallback {
 public:
  // `device` runs the nodes; null if there are none. `programs` is the device of the program.
  Fallback(std::shared_ptr<plugins::host::Device> device,
           std::shared_ptr<plugins::host::Device> programs);
  // Waits for the copies that still read the memory.
  ~Fallback();
  Fallback(const Fallback&) = delete;
  Fallback& operator=(const Fallback&) = delete;

  const std::shared_ptr<plugins::host::Device>& device() const { return device_; }
  // Plans the memory of all marked nodes. `kernels` has the kernel of each node; those of marked
  // nodes were made by device().
  void plan(const graph::Graph& graph, const std::vector<plugins::host::Kernel>& kernels);
  // Whether plan() has found the node.
  bool runs(size_t node) const { return works_.contains(node); }
  // Allocates the memory at the first call. To be called before launch().
  void bind();
  // `kernel` is that of the node; `inputs` and `outputs` are addresses on the device of the stream.
  void launch(size_t node, plugins::host::Kernel& kernel, plugins::host::Stream& stream,
              const std::vector<const void*>& inputs, const std::vector<void*>& outputs);
  FallbackCost cost(size_t node) const { return works_.at(node).cost; }
  // Multiplies the times of the last launches, as Program::measure() does with those of nodes.
  void scale_times(double factor);
  // The host memory, in bytes.
  uint64_t bytes() const { return plan_.bytes; }

 private:
  // An operand of a node: which buffer holds it, and whether an earlier operand has filled that.
  struct Operand {
    size_t buffer = 0;
    uint64_t bytes = 0;
    bool again = false;
  };
  struct Work {
    std::vector<Operand> inputs, outputs;
    std::optional<size_t> workspace, saved;  // buffers
    LaunchAddresses addresses;
    rt_launch launch = {};
    FallbackCost cost;
  };
  // The place of a value in the memory of the program: its storage value, and the bytes in it.
  using Place = std::tuple<graph::ValueId, uint64_t, uint64_t>;

  size_t add_buffer(uint64_t bytes, size_t node);
  Operand operand(const graph::Graph& graph, graph::ValueId value, size_t node,
                  std::map<Place, size_t>& known);
  void add(const graph::Graph& graph, size_t node, const plugins::host::Kernel& kernel);
  void add_saved(graph::ValueId saved, uint64_t bytes, size_t node, Work& work);
  void expect_pieces(const graph::Graph& graph) const;
  void* address(size_t buffer) const { return memory_->at(plan_.offsets[buffer]); }

  std::shared_ptr<plugins::host::Device> device_, programs_;
  std::optional<plugins::host::Stream> stream_;  // of device_
  std::optional<plugins::host::Event> copied_;   // the outputs of the last launch
  std::map<size_t, Work> works_;                 // by node
  std::vector<graph::BufferRequest> requests_;   // of all buffers
  std::map<graph::ValueId, size_t> saved_;       // buffers, by saved value
  graph::MemoryPlan plan_;
  std::optional<Arena> memory_;  // from plan() on, if there are nodes
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_FALLBACK_H_
