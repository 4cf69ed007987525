// Label smoothing and auxiliary heads add these operations to the contract's losses. Each is a row
// of compositions(), so that every device runs it; so is a gradient, "<name>_backward".
#ifndef RUNTIME_GRAPH_LOSS_OPERATIONS_H_
#define RUNTIME_GRAPH_LOSS_OPERATIONS_H_

namespace runtime::graph {

// logits [.., C], weight [..] -> the weighted sum of the mean of -log softmax over the classes.
inline constexpr const char* kUniformCrossEntropy = "uniform_cross_entropy";

// weight [..] -> factor * weight: a share of the weights of rows, which stay float32 beside 16-bit
// activations.
inline constexpr const char* kShareOfWeight = "share_of_weight";

// weight [N, T], of each label of a sample -> factor * the weight of the sample, their sum [N, 1].
inline constexpr const char* kWeightOfSamples = "weight_of_samples";

inline constexpr const char* kFactor = "factor";

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_LOSS_OPERATIONS_H_
