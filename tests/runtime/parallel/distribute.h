// The passes that distribute a step, in the order of the step compiler (step/compile_step.cpp).
#ifndef TESTS_RUNTIME_PARALLEL_DISTRIBUTE_H_
#define TESTS_RUNTIME_PARALLEL_DISTRIBUTE_H_

#include <vector>

#include "runtime/parallel/repeat_step.h"
#include "runtime/parallel/schedule_collectives.h"
#include "runtime/parallel/zero.h"

namespace runtime::parallel {

// The values that the caller writes before and reads after a distributed step.
struct Distributed {
  std::vector<ShardValues> shards;
  graph::ValueId loss = graph::kNone, correct = graph::kNone;
};

inline Distributed distribute(graph::Graph& graph, StepBuffers buffers, const ShardValues& inputs,
                              const DistributeOptions& options) {
  Distributed result;
  partition_gradients(graph, buffers, options);
  result.shards = repeat_step(graph, buffers, inputs, options);
  gather_parameters(graph, buffers, options);
  schedule_collectives(graph, buffers, options);
  result.loss = buffers.loss;
  result.correct = buffers.correct;
  return result;
}

}  // namespace runtime::parallel

#endif  // TESTS_RUNTIME_PARALLEL_DISTRIBUTE_H_
