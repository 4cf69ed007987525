// Conformance cases of gated activations and rotary positions.
#include "plugins/conformance/builder.h"

namespace plugins::conformance {
namespace {

void add_gates(Cases& cases, rt_dtype dtype) {
  const Values wide{-4.0, 4.0, 31};
  for (const int64_t function : {RT_ACTIVATION_RELU, RT_ACTIVATION_GELU, RT_ACTIVATION_GELU_TANH,
                                 RT_ACTIVATION_TANH, RT_ACTIVATION_SIGMOID, RT_ACTIVATION_SILU}) {
    for (const Dims& x :
         {Dims{7}, Dims{3, 5}, Dims{70, 129}, Dims{2, 3, 344}, Dims{4, 4096}, Dims{0, 8}}) {
      const std::string name = std::to_string(function) + " " + label(x);
      cases.push_back(Builder(RT_OP_GATED_ACTIVATION, dtype, name)
                          .in(x, wide)
                          .in(x)
                          .out(x)
                          .integer(RT_ATTR_FUNCTION, function));
      cases.push_back(Builder(RT_OP_GATED_ACTIVATION_BACKWARD, dtype, name)
                          .in(x)
                          .in(x, wide)
                          .in(x)
                          .out(x)
                          .out(x)
                          .integer(RT_ATTR_FUNCTION, function));
    }
  }
}

struct RotaryDims {
  Dims x, turns;
  int64_t heads;
};

void add_rotary(Cases& cases, rt_dtype dtype) {
  const std::vector<RotaryDims> list = {
      {{2, 5, 8}, {5, 8}, 1},           {{2, 5, 24}, {5, 8}, 3},     {{2, 5, 24}, {2, 5, 8}, 3},
      {{3, 7, 2}, {7, 2}, 1},           {{2, 16, 256}, {16, 64}, 4}, {{2, 3, 40}, {3, 6}, 4},
      {{2, 9, 192}, {9, 16}, 3},        {{1, 1, 64}, {1, 32}, 2},    {{6, 10}, {1, 10}, 1},
      {{2, 4, 3, 12}, {2, 4, 3, 4}, 3}, {{0, 5, 8}, {5, 8}, 1}};
  for (const RotaryDims& s : list) {
    for (const int64_t inverse : {0, 1}) {
      const std::string name = label(s.x) + " by " + label(s.turns) + (inverse ? " inverse" : "");
      cases.push_back(Builder(RT_OP_ROTARY, dtype, name)
                          .in(s.x)
                          .wide_in(s.turns)
                          .out(s.x)
                          .integer(RT_ATTR_HEADS, s.heads)
                          .integer(RT_ATTR_INVERSE, inverse));
    }
  }
}

}  // namespace

void add_gated(Cases& cases, rt_dtype dtype) {
  add_gates(cases, dtype);
  add_rotary(cases, dtype);
}

}  // namespace plugins::conformance
