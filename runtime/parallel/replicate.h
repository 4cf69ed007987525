// Copies the step of one virtual shard or one micro-batch, once for each of them, and merges
// batch-normalisation statistics over the copies and over ranks.
#ifndef RUNTIME_PARALLEL_REPLICATE_H_
#define RUNTIME_PARALLEL_REPLICATE_H_

#include <map>
#include <set>
#include <vector>

#include "runtime/graph/rewriter.h"
#include "runtime/parallel/distribution.h"

namespace runtime::parallel {

// Writes the nodes of forward and backward once for each virtual shard or micro-batch ("shard" in
// the names below). The copies share parameters, packed weights, 16-bit copies of parameters,
// inputs that do not hold samples, and merged statistics; each copy has its own instance of
// everything else.
class Replicate {
 public:
  // `gradients`: by copy, the buffer that its gradients go to instead of buffers.gradients. Where
  // gradients are accumulated in that buffer (micro-batches, micro-steps), nodes write temporaries,
  // which are then added. All references must outlive this object.
  Replicate(graph::Graph& graph, graph::Rewriter& rewriter, const StepBuffers& buffers,
            const ShardValues& inputs, const DistributeOptions& options,
            std::vector<graph::ValueId> gradients);

  // Takes the graph's nodes and returns all copies in lockstep. Nodes of phase kUpdate are left
  // out.
  graph::NodeList run();
  // Appends copies first..first+count-1 of one node to `out`.
  void copy(const graph::Node& node, int first, int count, graph::NodeList& out);
  // The instance of a value that copy `shard` has.
  graph::ValueId of(int shard, graph::ValueId value);

 private:
  bool is_shared(graph::ValueId storage) const;
  bool adds(int shard) const;
  graph::Node copied(const graph::Node& node, int shard);
  void accumulate(graph::ValueId gradient, int shard, const std::string& layer,
                  graph::NodeList& out);
  void emit_merge(const graph::Node& node, int first, int count, graph::NodeList& out);

  graph::Graph& graph_;
  graph::Rewriter& rewriter_;
  const StepBuffers& buffers_;
  const std::set<graph::ValueId> inputs_of_shard_;
  const DistributeOptions& options_;
  const int count_;
  std::vector<graph::ValueId> gradients_;
  std::vector<std::map<graph::ValueId, graph::ValueId>> copies_;  // by copy
  std::vector<graph::NodeCopies> nodes_;  // by copy; copy 0 keeps the tokens of its collectives
  std::set<graph::ValueId> sums_;         // what gradients of several copies are added up in
  std::set<graph::ValueId> shared_;
  std::set<graph::ValueId> rows_;  // statistics of one copy, not yet merged
};

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_REPLICATE_H_
