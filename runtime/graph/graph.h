// The static graph of one step: values (tensors) and nodes (operations) in the order in which they
// run.
#ifndef RUNTIME_GRAPH_GRAPH_H_
#define RUNTIME_GRAPH_GRAPH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rt/common.h"
#include "rt/communicator.h"
#include "rt/kernel.h"
#include "rt/operations.h"

namespace runtime::graph {

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr int32_t kNone = -1;

using Dims = std::vector<int64_t>;

// Where a value lives and for how long.
enum class ValueKind {
  kTemporary,  // within one step; its memory is reused
  kInput,      // written by the caller before a step
  kOutput,     // read by the caller after a step
  kParameter,  // persistent, trained
  kState,      // persistent: running statistics, optimizer state, gradients
  kPacked,     // persistent copy of a parameter in a foreign layout, renewed when the parameter has
               // changed
};

struct Value {
  std::string name;  // unique for every kind but kTemporary
  ValueKind kind = ValueKind::kTemporary;
  rt_dtype dtype = RT_FLOAT32;
  Dims dims;                              // in memory order, canonical
  uint64_t layout = RT_LAYOUT_CANONICAL;  // foreign layouts are assigned by the layout pass
  uint64_t bytes = 0;                     // of the layout; 0 until known
  ValueId base = kNone;                   // this value is a view of `base`...
  uint64_t offset = 0;                    // ...that begins so many bytes into it
};

struct Attribute {
  std::string name;
  std::variant<int64_t, double> value;
};

struct PostOp {
  int32_t kind = 0;      // RT_POST_*
  int32_t function = 0;  // RT_ACTIVATION_*
  int32_t operand = -1;  // index into Node::inputs
};

// A collective among the ranks, in place of a kernel: one node starts it, a later one waits for it.
// Both name what is sent as input and what is received as output, so that neither is touched in
// between. Elements are counted as rt/communicator.h says, of the smaller operand. A send has no
// output, the start of a receive no input.
struct Collective {
  int32_t kind = 0;          // RT_ALL_REDUCE ...
  int32_t reduction = 0;     // RT_SUM ... where it reduces
  int32_t communicator = 0;  // index; collectives of one communicator run in order
  bool wait = false;         // waits for the one that was started with this token
  int32_t token = 0;         // unique in the graph
  int32_t peer = -1;         // root, destination or source, where there is one

  bool is_transfer() const { return kind == RT_SEND || kind == RT_RECEIVE; }
};

// Of a node that turns a whole value into a rank's part of the result (parallel/shard): the
// gradient of input i is the sum of what the ranks of `communicator` compute, if bit i is set.
struct PartialGradients {
  uint32_t inputs = 0;
  int32_t communicator = 0;
};

enum class Phase { kForward, kBackward, kUpdate, kPack };

struct Node {
  std::string op;  // RT_OP_*
  std::string layer;
  Phase phase = Phase::kForward;
  std::vector<ValueId> inputs;  // operands of post-operations follow the operation's own
  std::vector<ValueId> outputs;
  std::vector<Attribute> attributes;
  std::vector<PostOp> post_ops;
  // What forward keeps for backward: written by the forward node, read by its `*_backward` node.
  ValueId saved = kNone;
  uint64_t algorithm = 0;  // chosen by the layout pass
  double estimated_ns = 0;
  std::string implementation;
  std::optional<Collective> collective = {};  // then `op` is a name for people
  // The forward node that it is, differentiates or computes again, by its index when the gradients
  // were made.
  int32_t origin = kNone;
  PartialGradients partial = {};

  bool is_backward() const { return op.ends_with("_backward"); }
};

// Values and nodes are addressed by index and never removed from `values`; passes rewrite `nodes`.
struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  int32_t tokens = 0;  // of collectives, given so far

  ValueId add_value(Value value);
  const Value& value(ValueId id) const { return values.at(id); }
  Value& value(ValueId id) { return values.at(id); }
  // The value whose memory this one lies in (itself unless it is a view), views of views followed.
  ValueId storage(ValueId id) const;
  // Before layouts are assigned.
  void retype(ValueId id, rt_dtype dtype);
  // A canonical view with other dims of the same element count.
  ValueId reshape(ValueId id, Dims dims);
};

// Start and wait of a collective, with a token of its own.
struct CollectivePair {
  Node start, wait;
};
CollectivePair make_collective(Graph& graph, int32_t kind, int32_t reduction, int32_t communicator,
                               ValueId send, ValueId receive);

int64_t element_count(const Dims& dims);
uint64_t dtype_bytes(rt_dtype dtype);
uint64_t canonical_bytes(const Value& value);
std::string to_string(const Dims& dims);  // "[256, 28, 28, 1]"

const Attribute* find_attribute(const Node& node, std::string_view name);
int64_t integer_attribute(const Node& node, std::string_view name, int64_t fallback);
double number_attribute(const Node& node, std::string_view name, double fallback);

// Floating-point operations of one launch by the usual count (multiply and add are two); 0 for pure
// data movement.
double flops(const Graph& graph, const Node& node);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_GRAPH_H_
