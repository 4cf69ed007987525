// Losses that are not in the contract: each is a row of compositions(), so that every device runs
// it, and so is its gradient, "<name>_backward".
//
// Operands of those that compare with targets: outputs [N, D], targets [N, D], weight [N], which
// is 1 / N where all samples count alike -> the weighted sum of the losses of the samples [1].
#ifndef RUNTIME_GRAPH_LOSS_OPERATIONS_H_
#define RUNTIME_GRAPH_LOSS_OPERATIONS_H_

namespace runtime::graph {

// The mean of |output - target|. Equivalent to: torch.nn.L1Loss.
inline constexpr const char* kMeanAbsoluteError = "mean_absolute_error";
// The mean of d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2). Equivalent to:
// torch.nn.HuberLoss.
inline constexpr const char* kHuber = "huber";
// The mean of the cross entropy of sigmoid(output) to the target, a probability. Equivalent to:
// torch.nn.BCEWithLogitsLoss.
inline constexpr const char* kBinaryCrossEntropy = "binary_cross_entropy";
// The sum of target * (log target - log softmax(output)); targets are probabilities that sum to 1.
// Equivalent to: torch.nn.KLDivLoss(reduction="batchmean") on the log-softmax of the output.
inline constexpr const char* kKlDivergence = "kl_divergence";
// logits [.., C], weight [..] -> the weighted sum of the mean of -log softmax over the classes:
// what label smoothing adds.
inline constexpr const char* kUniformCrossEntropy = "uniform_cross_entropy";

// weight [..] -> factor * weight: a share of the weights of rows, which stay float32 beside 16-bit
// activations.
inline constexpr const char* kShareOfWeight = "share_of_weight";

inline constexpr const char* kDelta = "delta";
inline constexpr const char* kFactor = "factor";

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_LOSS_OPERATIONS_H_
