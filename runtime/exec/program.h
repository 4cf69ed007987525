// A graph made executable on one device: kernels, addresses and order. Running it allocates
// nothing, unless the host computes some of its nodes.
#ifndef RUNTIME_EXEC_PROGRAM_H_
#define RUNTIME_EXEC_PROGRAM_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plugins/host/recording.h"
#include "runtime/exec/compile_options.h"
#include "runtime/exec/fallback.h"
#include "runtime/exec/host_kernel.h"
#include "runtime/exec/launch_addresses.h"
#include "runtime/exec/node_times.h"
#include "runtime/exec/placement.h"
#include "runtime/exec/span_recorder.h"
#include "runtime/exec/storage.h"
#include "runtime/graph/graph.h"

namespace runtime::exec {

// One buffer of the memory plan, for `runtime plan`.
struct BufferInfo {
  std::string name;
  graph::ValueKind kind = graph::ValueKind::kTemporary;
  uint64_t bytes = 0;
  uint64_t offset = 0;  // in the arena; 0 for persistent buffers, which have memory of their own
  int first = 0, last = 0;  // the first and last node that use it
};

// The memory of a program by use, in bytes.
struct MemoryReport {
  uint64_t parameters = 0, gradients_and_state = 0, packed = 0;
  uint64_t arena = 0;        // temporaries, inputs, outputs and workspaces together
  uint64_t lower_bound = 0;  // most bytes alive at one node; no arena can be smaller
  uint64_t largest_workspace = 0;
  std::vector<BufferInfo> buffers;
};

// How much of a step is replayed. Collectives and the packing of weights are never recorded: they
// run between the recordings. Equivalent to: CUDA graphs.
struct Recorded {
  size_t operations = 0, recordings = 0;
};

// A compiled graph. One thread at a time uses it. Storage, arena and collectives must outlive it.
class Program {
 public:
  // Creates all kernels and places all buffers of a graph that has been through the passes (see
  // step/compile_step.h). Throws DeviceError, or plugins::host::Error that names the layer.
  // - options.collectives: nullptr for a graph that has collectives makes a program that tells its
  //   memory and kernels, but cannot run.
  // - options.record: the first run launches every node, because libraries may load code during
  //   it; later runs replay recordings of the nodes that the device can record.
  // - options.target: only two of its members are used here: whether kernels must be
  //   deterministic, and the fallback device.
  Program(graph::Graph graph, std::shared_ptr<plugins::host::Device> device, Storage& storage,
          Arena& arena, const CompileOptions& options = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Queues one step on the stream: packs parameters that changed, then launches every node in
  // order. Allocates nothing. With `spans`, records a span of each node that it launches, for which
  // it replays no recording.
  void run(plugins::host::Stream& stream, SpanRecorder* spans = nullptr);
  // As run(), but waits after every node and adds each node's nanoseconds to `ns`, which has one
  // entry for each node. For measuring; without `collectives` collectives are skipped.
  void run_timed(plugins::host::Stream& stream, std::vector<double>& ns);
  // As run(), but waits after every node and then calls `observe`, which may read and write the
  // node's outputs before later nodes overwrite them.
  void run_observed(plugins::host::Stream& stream, const std::function<void(size_t node)>& observe);
  // Replaces the nodes' estimated times by measured ones. Returns false, and replaces none, if the
  // times of some nodes are not known.
  bool take_times(const NodeTimes& known);
  // Measures what `known` lacks, adds it, and takes the times: runs a few nodes of each kind a few
  // times, `upload` before each run, but no collectives. Returns the seconds of one upload.
  // Destroys the contents of buffers.
  double measure(plugins::host::Stream& stream, const std::function<void()>& upload,
                 NodeTimes& known);

  // Runs only the collectives of one communicator (-1: of all), on the present contents of the
  // buffers. Gradients are destroyed, parameters stay as they are. For measuring.
  void run_collectives(plugins::host::Stream& stream, int communicator = -1);

  // Whether the program has a place for a value. It has none for what other ranks have of the
  // model.
  bool uses(graph::ValueId id) const;
  // The address of a value, null if it has no place or no memory yet. It changes when a program
  // with a larger arena is made: ask before each use. Throws InternalError for a value that does
  // not lie in one buffer: a flat buffer that is cut, whose pieces Storage has, or a parameter of
  // which the rank has a ZeRO partition.
  void* address(graph::ValueId id) const;
  const graph::Graph& graph() const { return graph_; }
  // RT_OP_* flags of rt_op_desc that every kernel was made with.
  uint32_t operation_flags() const { return flags_; }
  const plugins::host::Kernel& kernel(size_t node) const { return kernels_[node]; }
  // Whether a node packs parameters only before the first step, because the update keeps the packed
  // copy right.
  bool is_kept_right(size_t node) const;
  // The nodes that another device runs.
  const Fallback& fallback() const { return fallback_; }
  const MemoryReport& memory() const { return memory_; }
  // How much of a run is replayed at present.
  Recorded recorded() const;

 private:
  struct Slot {           // where a storage value lives
    uint64_t offset = 0;  // in the arena
    bool persistent = false, placed = false;
  };
  // Consecutive nodes that are recorded together, or launched one by one.
  struct Segment {
    size_t begin = 0, end = 0;
    bool recordable = false;
    plugins::host::Recording recording;
  };
  void create_kernels();
  void create_kernel(graph::Node& node, const rt_plan* forward);
  std::vector<NodeNeeds> needs();
  void place();
  void expect_pieces(const Placement& placement) const;
  void check_promise(const rt_plan_info& info, const graph::Node& node) const;
  void bind();
  void write_constants();
  bool is_recordable(size_t node) const;
  void cut_segments();
  bool record(Segment& segment, plugins::host::Stream& stream);
  void run(Segment& segment, plugins::host::Stream& stream);
  void run_all(plugins::host::Stream& stream, SpanRecorder& spans);
  void check_collectives() const;
  void fill_received(size_t node, plugins::host::Stream& stream);
  std::set<size_t> unmeasured(const NodeTimes& known) const;
  double fill_unwritten(size_t node, std::set<graph::ValueId>& written,
                        plugins::host::Stream& stream);
  bool launch(size_t node, plugins::host::Stream& stream);
  void launch_kernel(size_t node, plugins::host::Stream& stream);
  void launch_collective(const graph::Node& node, plugins::host::Stream& stream);
  bool pack_is_stale(size_t node);
  void find_kept_packs();
  void finish_update();

  graph::Graph graph_;
  std::shared_ptr<plugins::host::Device> device_;
  Storage& storage_;
  Arena& arena_;
  Collectives* collectives_;
  uint32_t flags_;                     // RT_OP_* flags of every operation
  std::vector<CollectiveCall> calls_;  // by collective token
  std::vector<plugins::host::Kernel> kernels_;
  std::map<size_t, HostKernel> host_kernels_;  // by node
  Fallback fallback_;
  std::vector<Slot> slots_;                  // by value
  std::vector<uint64_t> workspace_offsets_;  // by node
  std::vector<LaunchAddresses> addresses_;   // by node
  std::vector<rt_launch> launches_;          // by node
  std::vector<uint64_t*> packed_versions_;   // by node; null unless the node packs a parameter
  std::vector<uint64_t*> kept_versions_;     // of the packed values that are right after the update
  std::vector<Segment> segments_;            // of all nodes, made by bind()
  bool record_;
  bool warm_ = false;         // has run since bind()
  uint64_t bound_arena_ = 0;  // Arena::version()
  bool bound_ = false;
  bool updates_parameters_ = false;
  MemoryReport memory_;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_PROGRAM_H_
