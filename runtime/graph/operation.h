// One row for each operation: what passes and the rooms above ask about it.
#ifndef RUNTIME_GRAPH_OPERATION_H_
#define RUNTIME_GRAPH_OPERATION_H_

#include <string>
#include <string_view>
#include <vector>

#include "rt/sdk/definition.h"
#include "runtime/graph/formula_row.h"
#include "runtime/graph/graph.h"

namespace runtime::graph {

// No enumerator of these lists is 0, so that a test finds the field that a row forgets.

// Who says what the operation does. Devices do not know those of the core; the host computes its
// own (host_operations.h).
enum class DefinedBy { kContract = 1, kCore, kHost, kPlugin };

// How results follow from operands.
enum class Kind {
  kCopies = 1,          // every number is written where it was, or is a constant
  kMoves,               // numbers change their places
  kConverts,            // numbers change their type
  kElementwise,         // a result depends on the same element of each operand
  kAdds,                // the same, by adding or subtracting
  kSum,                 // results are sums of numbers of one operand
  kProduct,             // results are sums of products of two operands' numbers
  kAttention,           // two products with a softmax in between
  kChooses,             // numbers of an operand are chosen, or the choices are counted
  kNormalisesRows,      // by the numbers along the last dimension
  kNormalisesChannels,  // by the numbers of all rows
  kRandom,              // a random mask
  kLoss,                // a loss or its gradient
  kGradientScale,       // what the gradients are multiplied by, and what that follows from
  kOptimizer,           // updates the parameters of one group in place, see is_update()
  kDecay,               // adds to the gradients of one group's parameters, see is_update()
  kUpdate,              // any other operation of the update, see is_update()
  kOpaque,              // the core knows nothing of it: it is a layer of a plugin
};

// What tensor parallelism does where an operand is split over the ranks (parallel/shard.cpp).
enum class SplitRule {
  kWhole = 1,   // every rank computes all of it, from whole operands
  kElements,    // the result is split as the first operand is
  kChannels,    // the same, if that is split along its last dimension
  kBroadcast,   // two operands that are split alike, or of which one lacks the dimension
  kPair,        // the same of two operands that are likely to be split alike
  kRows,        // the result is split as the first operand is, but not along the last dimension
  kNormalised,  // as kChannels; the parameters and statistics of the channels are split with them
  kMoments,     // the same, with a result that lists several numbers for each channel
  kWeights,     // a product with a parameter, which is split by rows or columns
  kTable,       // a look-up in a table whose rows are split
  kHeads,       // as kChannels, between heads
  kKeyHeads,    // the same for queries, and for keys and values apart from them; where there are
                // more ranks than heads of keys, every rank computes all of these and takes its own
  kClasses,     // rows of numbers for classes, which are split
  kTerm,        // the result for a part of the operand is one term of the whole result
};

// What a rank with several copies of a graph does (parallel/replicate.cpp).
enum class Replication {
  kCopied = 1,  // each copy computes it
  kMakesRows,   // the same; each copy gives one row of statistics
  kMergesRows,  // one node merges such rows of all copies, if it reads them
};

// What becomes of a node of a forward graph whose activations become 16-bit (mixed_precision.h).
enum class Precision {
  kNarrow = 1,  // its operands become 16-bit, but not those that the definition keeps wide
  kAsGiven,     // nothing
  kFloat32,     // operands are cast back to float32
};

// When a formula takes the place of a node that the target refuses (lower.h).
enum class Composed {
  kAtOnce = 1,
  kLate,  // behind the passes of parallel/, which look for the operation
};

// Whether post-operations are fused behind the first output (fuse.h), where a device can.
enum class PostOperations { kAlone = 1, kFuses };

class Differentiation;
// Appends the nodes of the gradient of a node to its graph, see rules.h.
using GradientRule = void(Differentiation&, size_t index, const Node&, ValueId dy);
// The floating-point operations of a node, see rules.h.
using FlopsRule = double(const Graph&, const Node&);
// The formula for a node, if it depends on the number of its inputs or dimensions.
using FormulaRule = Formula(const Graph&, const Node&);

// What is asked of an operation in a forward graph, before it is differentiated.
struct Forward {
  GradientRule* gradient;
  SplitRule split;
  Precision precision;
};

// A value of each field says that the operation has no such rule; one that is left out is an error
// that a test finds.
struct Operation {
  std::string name;
  Kind kind;
  Forward forward;
  Replication replication;
  Composed composed;
  PostOperations post_operations;
  FlopsRule* flops = nullptr;           // null: one for each element of the first output, or none
                                        // for the kinds that only write numbers elsewhere
  FormulaRule* formula_rule = nullptr;  // null: it is `formula`
  // What follows is filled in by the table that the row stands in.
  DefinedBy defined_by = {};
  const rt::sdk::Definition* definition = nullptr;  // of the contract's; static
  Formula formula = {};  // of the composition; `text` is empty if there is none
};

// Whether the operation of the update computes each element of the flat buffers by itself, so that
// it can be cut into ranges. An optimizer's state buffers have an element for each parameter.
inline bool is_update(Kind kind) {
  return kind == Kind::kOptimizer || kind == Kind::kDecay || kind == Kind::kUpdate;
}

// The name of the row that all collectives share.
inline constexpr const char* kCollective = "collective";

// The rows of the contract, the core and the host. operation_set.h has those of plugins, and looks
// for the row of a node.
const std::vector<Operation>& operations();
// The row of that name among them; null if there is none.
const Operation* find_operation(std::string_view op);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_OPERATION_H_
