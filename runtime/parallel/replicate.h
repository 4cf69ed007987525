// One shard's step -> copies of it: virtual shards, or the micro-batches of a pipeline; and what
// they and the ranks tell each other about batch normalisation.
#ifndef RUNTIME_PARALLEL_REPLICATE_H_
#define RUNTIME_PARALLEL_REPLICATE_H_

#include <map>
#include <set>
#include <vector>

#include "runtime/parallel/distribute.h"
#include "runtime/parallel/emit.h"

namespace runtime::parallel {

// Writes the nodes of forward and backward again, once for each shard. Parameters, packed weights,
// their 16-bit copies, inputs that are no sample's and merged statistics are shared; everything
// else is a shard's own.
class Replicate {
 public:
  // `gradients`: the buffer that each shard's gradients go to instead of buffers.gradients. Where
  // they are added up there (micro-batches, micro-steps), nodes write temporaries instead.
  Replicate(graph::Graph& graph, Emit& emit, const StepBuffers& buffers, const ShardValues& inputs,
            const DistributeOptions& options, std::vector<graph::ValueId> gradients);

  // All shards in lockstep. Nodes of phase kUpdate are left out.
  NodeList run();
  // A node for shards first..first+count-1.
  void copy(const graph::Node& node, int first, int count, NodeList& out);
  // A value of the step as shard `shard` has it.
  graph::ValueId of(int shard, graph::ValueId value);

 private:
  bool is_shared(graph::ValueId storage) const;
  bool casts_parameter(const graph::Node& node) const;
  bool merges(const graph::Node& node) const;
  bool adds(int shard) const;
  graph::Node copied(const graph::Node& node, int shard);
  void accumulate(graph::ValueId gradient, int shard, const std::string& layer, NodeList& out);
  void emit_merge(const graph::Node& node, int first, int count, NodeList& out);

  graph::Graph& graph_;
  Emit& emit_;
  const StepBuffers& buffers_;
  const ShardValues& inputs_;
  const DistributeOptions& options_;
  const int count_;
  std::vector<graph::ValueId> gradients_;
  std::vector<std::map<graph::ValueId, graph::ValueId>> copies_;  // by shard
  std::map<std::pair<int, int32_t>, int32_t> tokens_;  // of collectives, by shard and first token
  std::set<graph::ValueId> shared_;
  std::set<graph::ValueId> rows_;  // statistics of one shard
};

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_REPLICATE_H_
