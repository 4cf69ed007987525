// The static graph of one step: values (tensors) and nodes (operations) in the order of execution.
#ifndef RUNTIME_GRAPH_GRAPH_H_
#define RUNTIME_GRAPH_GRAPH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rt/common.h"
#include "rt/communicator.h"
#include "rt/kernel.h"
#include "rt/operations.h"
#include "rt/sdk/tensor.h"
#include "runtime/graph/constant.h"

namespace runtime::graph {

class OperationSet;

using ValueId = int32_t;
inline constexpr int32_t kNone = -1;

using Dims = std::vector<int64_t>;

// Where a value lives and for how long.
enum class ValueKind {
  kTemporary,  // within one step; its memory is reused
  kInput,      // written by the caller before a step
  kOutput,     // read by the caller after a step
  kParameter,  // persistent, trained
  kState,      // persistent: running statistics, optimizer state, gradients
  kPacked,     // persistent copy of parameters in another layout or type, renewed when they change
  kConstant,   // persistent, written once, see Value::contents
};

// A tensor of the step, or a view of one.
struct Value {
  std::string name;  // unique for every kind but kTemporary
  ValueKind kind = ValueKind::kTemporary;
  rt_dtype dtype = RT_FLOAT32;
  Dims dims;                              // in memory order, canonical
  uint64_t layout = RT_LAYOUT_CANONICAL;  // foreign layouts are assigned by the layout pass
  uint64_t bytes = 0;                     // in its layout; 0 until known
  ValueId base = kNone;                   // if not kNone, this value is a view of `base`
  uint64_t offset = 0;                    // bytes from the beginning of `base` to this view
  // The bytes at which the memory of a persistent value is cut into several buffers, ascending. No
  // operand of a graph that runs lies on both sides of a cut.
  std::vector<uint64_t> cuts = {};
  std::shared_ptr<const Constant> contents = nullptr;  // of a constant
};

// A named constant of an operation (RT_ATTR_*).
struct Attribute {
  std::string name;
  std::variant<int64_t, double> value;
};

// An operation fused behind a node's own operation.
struct PostOp {
  int32_t kind = 0;      // RT_POST_*
  int32_t function = 0;  // RT_ACTIVATION_*
  int32_t operand = -1;  // index into Node::inputs
};

// A collective among the ranks, in place of a kernel: one node starts it, a later node waits for
// it. Both list the send buffer as input and the receive buffer as output, so that no pass reuses
// the memory in between. Elements are counted as rt/communicator.h says, by the smaller operand. A
// send has no output; the start of a receive has no input.
struct Collective {
  int32_t kind = 0;          // RT_ALL_REDUCE ...
  int32_t reduction = 0;     // RT_SUM ... where it reduces
  int32_t communicator = 0;  // index; collectives of one communicator run in order
  bool wait = false;         // this node waits for the collective that was started with `token`
  int32_t token = 0;         // unique in the graph
  int32_t peer = -1;         // root, destination or source, for the kinds that have one
  int32_t micro_batch = 0;   // of a pipeline, from 1, for messages; 0: none

  bool is_transfer() const { return kind == RT_SEND || kind == RT_RECEIVE; }
};

// Set on a node that turns a whole value into this rank's tensor-parallel slice of the result
// (parallel/shard.h): if bit i is set, the gradient of input i is the sum of what the ranks of
// `communicator` compute.
struct PartialGradients {
  uint32_t inputs = 0;
  int32_t communicator = 0;
};

// kPack: renews packed copies of parameters.
enum class Phase { kForward, kBackward, kUpdate, kPack };

// One operation, or the start or the wait of a collective.
struct Node {
  std::string op;  // RT_OP_*
  std::string layer;
  Phase phase = Phase::kForward;
  std::vector<ValueId> inputs;  // operands of post-operations follow the operation's own
  std::vector<ValueId> outputs;
  std::vector<Attribute> attributes;
  std::vector<PostOp> post_ops;
  // Device-defined data that a forward node writes and the node of its gradient reads.
  ValueId saved = kNone;
  uint64_t algorithm = 0;  // chosen by the layout pass
  double estimated_ns = 0;
  std::string implementation;
  std::optional<Collective> collective = {};  // if set, `op` is only a readable name
  // The forward node that this node is, differentiates or recomputes: its index in `nodes` when
  // differentiate() ran.
  int32_t origin = kNone;
  PartialGradients partial = {};
  bool on_fallback = false;  // the target's fallback device runs it (Target::fallback_name)

  // Whether the node differentiates a forward node, whose `saved` it reads if there is one.
  bool is_backward() const { return op.find("_backward") != std::string::npos; }
};

// Where a value lies: a value that has memory of its own, and a byte in it.
struct Place {
  ValueId storage = kNone;
  uint64_t offset = 0;
};

// Values and nodes are addressed by index. Passes rewrite `nodes`; values are never removed.
struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::shared_ptr<const OperationSet> operations = {};  // of plugins; null: none
  int32_t tokens = 0;                                   // collective tokens given so far

  // Appends a value; bytes are filled in if they are 0 and the layout is canonical.
  ValueId add_value(Value value);
  // The same for a value in canonical layout that is no view.
  ValueId add_value(std::string name, ValueKind kind, Dims dims, rt_dtype dtype);
  const Value& value(ValueId id) const { return values.at(id); }
  Value& value(ValueId id) { return values.at(id); }
  // The value whose memory `id` lies in: itself, or the value at the end of a chain of views.
  ValueId storage(ValueId id) const;
  // The same, with the byte at which `id` begins in it.
  Place place_of(ValueId id) const;
  // Changes the type and the bytes. Only before layouts are assigned.
  void retype(ValueId id, rt_dtype dtype);
  // Changes the dims and the bytes of a value in canonical layout.
  void resize(ValueId id, Dims dims);
  // A canonical view with other dims; throws Error unless the element count is the same.
  ValueId reshape(ValueId id, Dims dims);
};

// The start and the wait of one collective, with a token of its own.
struct CollectivePair {
  Node start, wait;
};
CollectivePair make_collective(Graph& graph, int32_t kind, int32_t reduction, int32_t communicator,
                               ValueId send, ValueId receive);

// Whether a plugin brought the operation (operation_set.h): its name, and that of its backward
// operation, is "<plugin>.<name>", and no other operation has a dot.
inline bool is_open(std::string_view op) { return op.find('.') != std::string_view::npos; }

// Sizes in elements and bytes.
int64_t element_count(const Dims& dims);
using rt::sdk::dtype_bytes;
uint64_t canonical_bytes(const Value& value);
std::string to_string(const Dims& dims);  // "[256, 28, 28, 1]"
// Whether the value is a temporary with memory of its own.
bool is_plain_temporary(const Value& value);

// An attribute by name: null, or `fallback`, if the node has none of this name (and type).
const Attribute* find_attribute(const Node& node, std::string_view name);
int64_t integer_attribute(const Node& node, std::string_view name, int64_t fallback);
double number_attribute(const Node& node, std::string_view name, double fallback);

// Floating-point operations of one execution, counted as usual (a multiply-add is two); 0 for pure
// data movement. flops.cpp has both.
double flops(const Graph& graph, const Node& node);
// The same of a whole step in which forward and backward run `passes` times and the update once.
double step_flops(const Graph& graph, int64_t passes);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_GRAPH_H_
