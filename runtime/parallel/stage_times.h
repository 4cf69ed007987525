// What the stages of a pipeline take, for cutting a model and for predicting its bubble.
#ifndef RUNTIME_PARALLEL_STAGE_TIMES_H_
#define RUNTIME_PARALLEL_STAGE_TIMES_H_

#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/parallel/efficiency.h"
#include "runtime/parallel/schedule.h"
#include "runtime/parallel/stages.h"

namespace runtime::parallel {

// From the whole step of one micro-batch on one rank, compiled: its nodes have estimated times.

// For StageOptions::cost: ns by origin.
std::vector<double> cost_by_origin(const graph::Graph& compiled);

// For simulate(). What a stage sends to a later or an earlier one, however far, counts as sent to
// the next; stages of the same rank send each other nothing.
StageTimes stage_times(const graph::Graph& compiled, const Stages& stages, int ranks,
                       const Link& link);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_STAGE_TIMES_H_
