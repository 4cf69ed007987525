// Pipeline parallelism: the stages of a model on different ranks, as two passes over the graph.
#ifndef RUNTIME_PARALLEL_PIPELINE_H_
#define RUNTIME_PARALLEL_PIPELINE_H_

#include <map>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/parallel/schedule.h"
#include "runtime/parallel/stages.h"

namespace runtime::parallel {

// A parameter that stages of several ranks read (tied weights). Each of them has it, and its part
// of the gradient; the parts are added after the last micro-batch.
struct SharedParameter {
  graph::ValueId parameter = graph::kNone;
  graph::ValueId gradient = graph::kNone;  // this rank's, kNone where it has no part
  std::vector<int> ranks;                  // of the pipeline, that have a part; ascending
};

// One rank's place in a pipeline. Stage s belongs to rank s % schedule.ranks.
struct Pipeline {
  Schedule schedule;
  Stages stages;
  int rank = 0;
  std::vector<SharedParameter> shared = {};

  void replace_gradient(graph::ValueId old, graph::ValueId by) {
    for (SharedParameter& s : shared) {
      if (s.gradient == old) s.gradient = by;
    }
  }
};

// The first pass: the step of one micro-batch (forward, or forward and backward, not compiled) ->
// what this rank computes of it. Nodes of other stages go away. What they read of each other is
// sent straight from the rank that computes it to each that reads it, however far: every
// communicator joins all ranks, and nobody has to keep what it does not use. Transfers carry tokens
// in the order in which one micro-batch makes their values, on all ranks the same.
//
// `gradients` (by parameter; from differentiate()) keeps those of this rank, and `pipeline.shared`
// is filled in. Values stay; a parameter belongs to the rank if some node still reads it.
void cut_stages(graph::Graph& graph, Pipeline& pipeline,
                std::map<graph::ValueId, graph::ValueId>& gradients);

bool is_read(const graph::Graph& graph, graph::ValueId value);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_PIPELINE_H_
