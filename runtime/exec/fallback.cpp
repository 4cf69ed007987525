// Copies operands of refused nodes to the fallback device, runs them there, and copies results
// back.
#include "runtime/exec/fallback.h"

#include <algorithm>
#include <chrono>

#include "plugins/host/error.h"

namespace runtime::exec {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;

namespace {

// Bytes per second between a device and the host. No plugin says how fast its copies are; this is
// what a slow bus reaches.
constexpr double kHostBandwidth = 8e9;

}  // namespace

double host_copy_ns(uint64_t bytes) { return static_cast<double>(bytes) / kHostBandwidth * 1e9; }

Fallback::Fallback(std::shared_ptr<plugins::host::Device> device,
                   std::shared_ptr<plugins::host::Device> programs)
    : device_(std::move(device)), programs_(std::move(programs)) {}

Fallback::~Fallback() {
  try {
    if (copied_) copied_->synchronize();
  } catch (const std::exception&) {
    // The device has failed, so that no copy runs any more; who waits for the stream learns why.
  }
}

size_t Fallback::add_buffer(uint64_t bytes, size_t node) {
  const int at = static_cast<int>(node);
  requests_.push_back({std::max<uint64_t>(bytes, 1), at, at});
  return requests_.size() - 1;
}

// Operands in the same memory, such as those of an optimizer, which works in place, share a buffer.
Fallback::Operand Fallback::operand(const Graph& graph, ValueId value, size_t node,
                                    std::map<Place, size_t>& known) {
  const uint64_t bytes = graph::canonical_bytes(graph.value(value));
  const auto [storage, offset] = graph.place_of(value);
  const auto [place, is_new] = known.try_emplace({storage, offset, bytes}, 0);
  if (is_new) place->second = add_buffer(bytes, node);
  return {place->second, bytes, !is_new};
}

void Fallback::add_saved(ValueId saved, uint64_t bytes, size_t node, Work& work) {
  const auto [known, is_new] = saved_.try_emplace(saved, 0);
  if (is_new) known->second = add_buffer(bytes, node);
  requests_[known->second].last = static_cast<int>(node);
  work.saved = known->second;
}

void Fallback::add(const Graph& graph, size_t node, const plugins::host::Kernel& kernel) {
  const Node& n = graph.nodes[node];
  Work& work = works_[node];
  std::map<Place, size_t> known;
  for (ValueId v : n.inputs) {
    work.inputs.push_back(operand(graph, v, node, known));
    if (!work.inputs.back().again) work.cost.bytes_to_host += work.inputs.back().bytes;
  }
  for (ValueId v : n.outputs) {
    work.outputs.push_back(operand(graph, v, node, known));
    work.cost.bytes_from_host += work.outputs.back().bytes;
  }
  const rt_plan_info& info = kernel.info();
  if (info.workspace_bytes > 0) work.workspace = add_buffer(info.workspace_bytes, node);
  if (n.saved != kNone && graph.value(n.saved).bytes > 0)
    add_saved(n.saved, graph.value(n.saved).bytes, node, work);
}

void Fallback::plan(const Graph& graph, const std::vector<plugins::host::Kernel>& kernels) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].on_fallback) add(graph, i, kernels[i]);
  }
  if (works_.empty()) return;
  // Copies are fastest with pinned memory of the device of the programs, which is aligned as that
  // device wants it. If the fallback device wants more, its own memory is used.
  const bool aligned = programs_->properties().alignment >= device_->properties().alignment;
  memory_.emplace(aligned ? programs_ : device_, true,
                  aligned ? RT_MEMORY_PINNED_HOST : RT_MEMORY_DEVICE);
  expect_pieces(graph);
  plan_ = graph::plan_memory(requests_, device_->properties().alignment, memory_->piece());
  memory_->reserve(plan_.bytes);
}

void Fallback::expect_pieces(const Graph& graph) const {
  for (const graph::BufferRequest& r : requests_) {
    if (r.bytes <= memory_->piece()) continue;
    const Node& node = graph.nodes[r.first];
    throw plugins::host::Error(
        RT_ERROR_OUT_OF_MEMORY,
        "this batch does not fit " + device_->id() + ": an operand of " + node.op + " of layer '" +
            node.layer + "' has " + std::to_string(r.bytes) +
            " bytes, and one buffer there at most " + std::to_string(memory_->piece()) +
            "; use a smaller training.micro_batch_size");
  }
}

void Fallback::bind() {
  if (works_.empty() || stream_) return;
  memory_->materialise();
  stream_.emplace(device_->create_stream());
  copied_.emplace(programs_->create_event());
  for (auto& [node, work] : works_) {
    LaunchAddresses& a = work.addresses;
    for (const Operand& o : work.inputs) a.inputs.push_back(address(o.buffer));
    for (const Operand& o : work.outputs) a.outputs.push_back(address(o.buffer));
    if (work.workspace) a.workspace = address(*work.workspace);
    if (work.saved) a.saved = address(*work.saved);
    work.launch = a.launch();
  }
}

void Fallback::launch(size_t node, plugins::host::Kernel& kernel, plugins::host::Stream& stream,
                      const std::vector<const void*>& inputs, const std::vector<void*>& outputs) {
  Work& work = works_.at(node);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Operand& o = work.inputs[i];
    if (!o.again) stream.copy(address(o.buffer), inputs[i], o.bytes);
  }
  // The copies of the node before have ended then, too, so that its buffers may be written again.
  stream.synchronize();
  const auto begin = std::chrono::steady_clock::now();
  kernel.launch(*stream_, work.launch);
  stream_->synchronize();
  work.cost.kernel_ns =
      std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
  for (size_t i = 0; i < outputs.size(); ++i)
    stream.copy(outputs[i], work.addresses.outputs[i], work.outputs[i].bytes);
  copied_->record(stream);
}

void Fallback::scale_times(double factor) {
  for (auto& [node, work] : works_) work.cost.kernel_ns *= factor;
}

}  // namespace runtime::exec
