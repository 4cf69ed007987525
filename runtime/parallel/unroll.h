// A rank's part of a pipeline for one micro-batch -> for all of them, in the order of the schedule.
#ifndef RUNTIME_PARALLEL_UNROLL_H_
#define RUNTIME_PARALLEL_UNROLL_H_

#include "runtime/parallel/emit.h"
#include "runtime/parallel/pipeline.h"
#include "runtime/parallel/replicate.h"

namespace runtime::parallel {

// The second pass, behind layouts. Every slot gets the nodes of its chunk and direction; a node
// without an origin runs where its inputs are made.
//
// Transfers of all ranks have one order, that of the ends of the slots that make their values if
// forward takes 1 and backward 2. Each rank starts its own in this order: sends where the value is
// made, receives at the beginning of the slot that the rank is in when the value is made. So sends
// and receives of two ranks match, a transfer has the rest of that slot to go on beside computing,
// and nobody waits for ever, not even where a communicator carries out one call after the other:
// what a rank needs to get to a transfer comes earlier in the order. Sends are waited for a slot
// later.
NodeList unroll(graph::Graph& graph, Emit& emit, Replicate& replicate, const Pipeline& pipeline);

// Behind the nodes: the sum over micro-batches of `value` ([1], made by the last stage), on every
// rank of the pipeline.
graph::ValueId emit_total(graph::Graph& graph, Emit& emit, Replicate& replicate,
                          const Pipeline& pipeline, graph::ValueId value, NodeList& nodes);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_UNROLL_H_
