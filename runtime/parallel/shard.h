// The tensor-parallel pass: turns the forward graph of a model into that of one of several ranks,
// each of which holds a tensor-parallel slice of the parameters.
#ifndef RUNTIME_PARALLEL_SHARD_H_
#define RUNTIME_PARALLEL_SHARD_H_

#include <map>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/parallel/mesh.h"
#include "runtime/parallel/split.h"

namespace runtime::parallel {

// Input of shard().
struct ShardOptions {
  int rank = 0, ranks = 1;  // on the tensor axis
  int communicator = kTensorCommunicator;
  // By layer: "column" (the rank computes a slice of the outputs), "row" (the rank computes with a
  // slice of the inputs, and the results are all-reduced), "none"; layers that are not named are
  // "auto".
  std::map<std::string, std::string> hints = {};
};

// The tensor-parallel slice of one parameter.
struct ShardedParameter {
  graph::Dims dims;  // of the whole parameter
  Split split;
};

// What shard() returns.
struct Sharded {
  std::vector<ShardedParameter> parameters;  // in the order of the argument
  std::vector<std::string> notes;  // lines for the log: layers split unevenly or not at all
};

// Rewrites the forward graph, with the loss in it and before differentiate(): dims of values and
// parameters become those of the rank's slices, and collectives are added. All ranks get the same
// nodes with other dims and attributes. Graphs of one model for training and for evaluation get the
// same slices.
//
// After Shoeybi et al. ("Megatron-LM: training multi-billion parameter language models using model
// parallelism", 2019): a layer whose output can stay split up to a layer that takes split inputs is
// cut by columns, the latter layer by rows. One all-reduce adds up its results; in the backward
// pass one all-reduce adds up the gradient of the first layer's input. So a transformer block has
// two all-reduces forward and two backward. Attention is split by heads, embeddings and the classes
// of a cross-entropy by vocabulary, convolutions by channels. Normalisation over channels, pooling,
// activations and dropout need no communication. Every other reader of a split value gets the whole
// value.
//
// Gradients of split parameters are those of the rank's slices; gradients of whole parameters are
// the same on all ranks. No gradient has to be reduced over the tensor axis afterwards.
//
// `parameters`: trained ones and running statistics. Throws ConfigurationError if a hint cannot be
// followed, or if nothing can be split; the message then names the largest degree that could.
// Equivalent to: Megatron-LM's ColumnParallelLinear, RowParallelLinear and VocabParallelEmbedding.
Sharded shard(graph::Graph& graph, const std::vector<graph::ValueId>& parameters,
              const ShardOptions& options);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_SHARD_H_
