// Operations of the update that are not in the contract: each is a row of compositions(), so that
// every device runs it.
//
// `scale` [1] multiplies the gradient; with 0 a step changes nothing. With the attribute "scaled" =
// 0 it is 1 in every step, and is not read.
#ifndef RUNTIME_GRAPH_UPDATE_OPERATIONS_H_
#define RUNTIME_GRAPH_UPDATE_OPERATIONS_H_

namespace runtime::graph {

// Optimizers. Their operands begin with parameters, gradients, learning rate [1] and scale [1], as
// those of `sgd`; state buffers follow.
inline constexpr const char* kSgdDampened = "sgd_dampened";

// gradients, parameters, scale -> gradients: adds weight_decay * parameters to what the optimizer
// makes of the gradients with this scale.
inline constexpr const char* kAddWeightDecay = "add_weight_decay";
// gradients, scale -> gradients: each number times the scale is kept within +-max_value.
inline constexpr const char* kClipValue = "clip_value";
// average, parameters -> average: decay * average + (1 - decay) * parameters.
inline constexpr const char* kMovingAverage = "moving_average";

inline constexpr const char* kScaled = "scaled";
inline constexpr const char* kDampening = "dampening";
inline constexpr const char* kMaxValue = "max_value";
inline constexpr const char* kDecay = "decay";

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_UPDATE_OPERATIONS_H_
