// A graph made executable on one device: kernels, addresses, order. Running it allocates nothing.
#ifndef RUNTIME_EXEC_PROGRAM_H_
#define RUNTIME_EXEC_PROGRAM_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugins/host/recording.h"
#include "runtime/exec/collectives.h"
#include "runtime/exec/storage.h"
#include "runtime/graph/graph.h"

namespace runtime::exec {

// One buffer of the memory plan, for `runtime plan`.
struct BufferInfo {
  std::string name;
  graph::ValueKind kind = graph::ValueKind::kTemporary;
  uint64_t bytes = 0;
  uint64_t offset = 0;      // in the arena; persistent buffers have memory of their own
  int first = 0, last = 0;  // nodes between which it is alive
};

// Where the bytes of a program go.
struct MemoryReport {
  uint64_t parameters = 0, gradients_and_state = 0, packed = 0;
  uint64_t arena = 0;        // what temporaries, inputs, outputs and workspaces take together
  uint64_t lower_bound = 0;  // the most bytes alive at one node: no arena can be smaller
  uint64_t largest_workspace = 0;
  std::vector<BufferInfo> buffers;
};

// How much of a step is replayed. Collectives and the packing of weights never are: they stand
// between the recordings.
struct Recorded {
  size_t operations = 0, recordings = 0;
};

// One thread at a time. Storage, arena and collectives outlive it.
class Program {
 public:
  // The graph has been through the passes (see compile.h). Creates all kernels and places all
  // buffers. Without `collectives` a graph that has some is planned only: it cannot run.
  // `record`: from the second run on what the device can record is replayed with one call; the
  // first one, in which libraries still load what they need, launches everything.
  Program(graph::Graph graph, std::shared_ptr<plugins::host::Device> device, Storage& storage,
          Arena& arena, Collectives* collectives = nullptr, bool record = false);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Queues one step on the stream: packs parameters that changed, then every node in order.
  // Allocates nothing.
  void run(plugins::host::Stream& stream);
  // The same, waiting after every node; adds each node's time to `ns` (one entry a node). For
  // measuring; collectives are left out where it was planned without them.
  void run_timed(plugins::host::Stream& stream, std::vector<double>& ns);
  // The same as run(), waiting after every node; then `observe` may read and write what the node
  // has written, which later nodes may overwrite.
  void run_observed(plugins::host::Stream& stream, const std::function<void(size_t node)>& observe);
  // Makes the nodes' times measured ones, by running all but the collectives a few times, `upload`
  // before each; returns the seconds that this takes. Spoils what buffers hold.
  double measure(plugins::host::Stream& stream, const std::function<void()>& upload);

  // The collectives of one communicator alone (-1: of all), on what the buffers hold: gradients are
  // spoiled, parameters stay as they are. For measuring.
  void run_collectives(plugins::host::Stream& stream, int communicator = -1);

  // Address of a value: valid until a program with a larger arena is made; ask again before use.
  void* address(graph::ValueId id) const;
  const graph::Graph& graph() const { return graph_; }
  const plugins::host::Kernel& kernel(size_t node) const { return kernels_[node]; }
  const MemoryReport& memory() const { return memory_; }
  Recorded recorded() const;
  // What the ranks must agree on, in order, as text: collectives of the communicators up to `last`.
  std::vector<std::string> collective_list(int last) const;

 private:
  struct Slot {              // where a storage value lives
    void* memory = nullptr;  // of a persistent buffer
    uint64_t offset = 0;     // in the arena
    bool persistent = false, placed = false;
  };
  // Nodes that follow each other and are queued together.
  struct Segment {
    size_t begin = 0, end = 0;
    bool recordable = false;
    plugins::host::Recording recording;
  };
  void create_kernels();
  void place();
  void bind();
  bool is_recordable(size_t node) const;
  void cut_segments();
  bool record(Segment& segment, plugins::host::Stream& stream);
  void run(Segment& segment, plugins::host::Stream& stream);
  void check_collectives() const;
  double fill_received(size_t node, plugins::host::Stream& stream);
  void launch(size_t node, plugins::host::Stream& stream);
  void launch_collective(const graph::Node& node, plugins::host::Stream& stream);
  bool pack_is_stale(size_t node);

  graph::Graph graph_;
  std::shared_ptr<plugins::host::Device> device_;
  Storage& storage_;
  Arena& arena_;
  Collectives* collectives_;
  std::vector<CollectiveCall> calls_;  // by token
  std::vector<plugins::host::Kernel> kernels_;
  std::vector<Slot> slots_;                  // by value
  std::vector<uint64_t> workspace_offsets_;  // by node
  std::vector<std::vector<const void*>> inputs_;
  std::vector<std::vector<void*>> outputs_;
  std::vector<rt_launch> launches_;
  std::vector<uint64_t*> packed_versions_;  // by node; null unless it packs
  std::vector<Segment> segments_;           // all nodes, since they were bound
  bool record_;
  bool warm_ = false;  // ran since it was bound
  const std::byte* bound_arena_ = nullptr;
  bool bound_ = false;
  bool updates_parameters_ = false;
  MemoryReport memory_;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_PROGRAM_H_
