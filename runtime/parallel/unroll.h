// Pipeline parallelism, second pass: repeats a rank's nodes of one micro-batch for all
// micro-batches, in the order of the schedule.
#ifndef RUNTIME_PARALLEL_UNROLL_H_
#define RUNTIME_PARALLEL_UNROLL_H_

#include "runtime/graph/rewriter.h"
#include "runtime/parallel/pipeline.h"
#include "runtime/parallel/replicate.h"

namespace runtime::parallel {

// Runs after layouts have been chosen. Every slot gets the nodes of its chunk and direction. A node
// without an origin runs where its inputs are computed.
//
// All ranks use one order of transfers: the order in which the slots that compute their values end
// if a forward takes 1 and a backward 2. Each rank starts its transfers in this order: a send where
// the value is computed, a receive at the beginning of the slot in which this rank is when the
// value is computed. So the sends and receives of two ranks match, and a transfer can overlap with
// the rest of that slot. No rank waits for ever, even if a communicator carries out one call after
// the other, because everything that a rank needs to reach a transfer comes earlier in the order. A
// send is waited for one slot later.
graph::NodeList unroll(graph::Graph& graph, graph::Rewriter& rewriter, Replicate& replicate,
                       const Pipeline& pipeline);

// Appends to `nodes` the sum over micro-batches of `value` ([1], computed by the last stage) and
// its broadcast. Returns the sum, which every rank of the pipeline then has.
graph::ValueId append_total(graph::Graph& graph, graph::Rewriter& rewriter, Replicate& replicate,
                            const Pipeline& pipeline, graph::ValueId value, graph::NodeList& nodes);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_UNROLL_H_
