// The names of the functions of `activation` and `gated_activation`, in formulas, layers and files.
#ifndef RUNTIME_GRAPH_ACTIVATIONS_H_
#define RUNTIME_GRAPH_ACTIVATIONS_H_

#include <cstdint>
#include <string_view>

#include "rt/operations.h"

namespace runtime::graph {

// A function RT_ACTIVATION_* and its name.
struct ActivationName {
  int32_t function;
  std::string_view name;
};
inline constexpr ActivationName kActivations[] = {{RT_ACTIVATION_RELU, "relu"},
                                                  {RT_ACTIVATION_GELU, "gelu"},
                                                  {RT_ACTIVATION_GELU_TANH, "gelu_tanh"},
                                                  {RT_ACTIVATION_TANH, "tanh"},
                                                  {RT_ACTIVATION_SIGMOID, "sigmoid"},
                                                  {RT_ACTIVATION_EXP, "exp"},
                                                  {RT_ACTIVATION_LOG, "log"},
                                                  {RT_ACTIVATION_SQRT, "sqrt"},
                                                  {RT_ACTIVATION_RECIPROCAL, "reciprocal"},
                                                  {RT_ACTIVATION_SILU, "silu"},
                                                  {RT_ACTIVATION_SIN, "sin"},
                                                  {RT_ACTIVATION_COS, "cos"},
                                                  {RT_ACTIVATION_FLOOR, "floor"}};

// The function of that name; 0 if there is none.
constexpr int32_t activation_function(std::string_view name) {
  for (const ActivationName& row : kActivations) {
    if (row.name == name) return row.function;
  }
  return 0;
}

// The name of a function; "" if there is none.
constexpr std::string_view activation_name(int64_t function) {
  for (const ActivationName& row : kActivations) {
    if (row.function == function) return row.name;
  }
  return {};
}

// Whether `activation` has the function, whose gradient is `activation_backward`.
constexpr bool has_backward(int32_t function) {
  return function >= RT_ACTIVATION_RELU && function <= RT_ACTIVATION_SIGMOID;
}

// The function of which this name is the gradient, as relu_backward; 0 if there is none.
constexpr int32_t backward_function(std::string_view name) {
  if (!name.ends_with("_backward")) return 0;
  const int32_t function = activation_function(name.substr(0, name.rfind('_')));
  return has_backward(function) ? function : 0;
}

// Whether the gradient is computed from the operand of the function, and not from its result.
constexpr bool backward_reads_operand(int64_t function) {
  return function == RT_ACTIVATION_GELU || function == RT_ACTIVATION_GELU_TANH;
}

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_ACTIVATIONS_H_
