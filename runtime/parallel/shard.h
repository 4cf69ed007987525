// The tensor-parallel pass: the forward graph of a model -> that of one of several ranks which hold
// a part of its parameters each.
#ifndef RUNTIME_PARALLEL_SHARD_H_
#define RUNTIME_PARALLEL_SHARD_H_

#include <map>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/parallel/mesh.h"
#include "runtime/parallel/split.h"

namespace runtime::parallel {

struct ShardOptions {
  int rank = 0, ranks = 1;  // of the tensor axis
  int communicator = kTensorCommunicator;
  // By layer: "column" (the rank computes a part of the outputs), "row" (of the inputs, and the
  // ranks add up), "none"; "auto" for layers that are not named.
  std::map<std::string, std::string> hints = {};
};

// What a rank has of a parameter.
struct ShardedParameter {
  graph::Dims dims;  // of the whole
  Split split;
};

struct Sharded {
  std::vector<ShardedParameter> parameters;  // in the order of those given
  std::vector<std::string> notes;            // what is not split or not evenly, for the log
};

// Rewrites the forward graph, with the loss in it and before differentiate(): dims of values and
// parameters become the rank's, and collectives are added. All ranks get the same nodes with other
// dims and attributes; graphs of one model for training and for evaluation get the same parameters.
//
// After Shoeybi et al. ("Megatron-LM: training multi-billion parameter language models using model
// parallelism", 2019): a layer whose output can stay split up to one that takes split inputs is
// cut by columns, the other by rows, whose results are added up by one all-reduce; backward, the
// gradient of the first one's input is. So a transformer block has two all-reduces forward and two
// backward. Attention is split by heads, embeddings and the classes of a cross-entropy by
// vocabulary, convolutions by channels; normalisation over channels, pooling, activations and
// dropout stay on the rank. Whatever else reads a split value gets it whole.
//
// Gradients of split parameters are the rank's own; those of whole parameters are the same on all
// ranks. Nothing has to be added over the tensor axis afterwards.
//
// `parameters`: trained ones and running statistics. Throws ConfigurationError where a hint cannot
// be followed, or where nothing can be split, with the largest degree that could.
Sharded shard(graph::Graph& graph, const std::vector<graph::ValueId>& parameters,
              const ShardOptions& options);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_SHARD_H_
