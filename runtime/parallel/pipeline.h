// Pipeline parallelism takes two passes over the graph. This one cuts a model into stages on ranks;
// the second, repeat_step(), runs the micro-batches in the order of the schedule.
#ifndef RUNTIME_PARALLEL_PIPELINE_H_
#define RUNTIME_PARALLEL_PIPELINE_H_

#include <map>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/parallel/schedule.h"
#include "runtime/parallel/stages.h"

namespace runtime::parallel {

// A parameter that stages of several ranks read (tied weights). Each of these ranks has a copy of
// it and computes a partial gradient; the partial gradients are added after the last micro-batch.
struct SharedParameter {
  graph::ValueId parameter = graph::kNone;
  graph::ValueId gradient = graph::kNone;  // of this rank; kNone where it computes none
  std::vector<int> ranks;  // pipeline ranks that compute a partial gradient; ascending
};

// One rank's place in a pipeline. Stage s runs on rank s % schedule.ranks.
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

// Turns the step of one micro-batch (forward, or forward and backward, not compiled) into what this
// rank computes of it. Nodes of other stages are removed. A value that a stage on another rank
// reads is sent straight to that rank, however many stages are in between: every communicator joins
// all ranks of the axis, and no rank has to forward what it does not use. Transfers get tokens (the
// numbers that pair a start with its wait) in the order in which one micro-batch computes their
// values, the same on all ranks.
//
// `gradients` (by parameter; from differentiate()) keeps the entries that this rank computes, and
// `pipeline.shared` is filled in. No value is removed; a parameter belongs to the rank if a node
// still reads it. Throws ConfigurationError if a rank reads a parameter and computes no gradient of
// it.
void cut_stages(graph::Graph& graph, Pipeline& pipeline,
                std::map<graph::ValueId, graph::ValueId>& gradients);

// Whether a node reads `value` or a view of it.
bool is_read(const graph::Graph& graph, graph::ValueId value);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_PIPELINE_H_
