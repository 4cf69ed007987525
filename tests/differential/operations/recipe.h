// A recipe determines one differential case completely: an operation, the parameters that give its
// shapes and attributes, and the contents of the operands. Its text form replays a failure:
//
//   conv2d float32 n=1 h=3 w=1 c=2 post=bias,relu fill=huge@0 plant=0:17:nan seed=5 threads=3
#ifndef TESTS_DIFFERENTIAL_OPERATIONS_RECIPE_H_
#define TESTS_DIFFERENTIAL_OPERATIONS_RECIPE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rt/common.h"

namespace differential {

// The parameters of an operation by name, as its family declares them.
using Numbers = std::map<std::string, int64_t>;

// A special value in one element of an operand.
struct Plant {
  uint32_t operand = 0;
  uint64_t index = 0;  // modulo the number of elements of the operand, so that it stays valid while
                       // shapes shrink
  std::string value;   // one of plant_values()
  bool operator==(const Plant&) const = default;
};

struct Recipe {
  std::string operation;  // RT_OP_*
  rt_dtype dtype = RT_FLOAT32;
  Numbers numbers;
  std::vector<std::string> post;  // "bias", "residual", "relu", "relu_backward", ...
  std::string fill = "plain";     // one of fill_kinds()
  int32_t filled_operand = -1;    // the operand that `fill` applies to; -1: all operands
  std::vector<Plant> plants;
  uint64_t seed = 1;  // the seed of the elements
  int32_t threads = 1;
  bool deterministic = false;  // asks for RT_OP_DETERMINISTIC
  bool operator==(const Recipe&) const = default;
};

std::string to_text(const Recipe& recipe);

// Throws std::invalid_argument, which names the word that it does not understand.
Recipe parse_recipe(const std::string& text);

// "nan", "inf", "-inf", "-0", "0", "tiny", "huge"
const std::vector<std::string>& plant_values();
// "plain", "whole", "huge", "tiny", "offset", "same", "zero", "one"
const std::vector<std::string>& fill_kinds();
// "bias", "residual", and each activation with and without "_backward"
const std::vector<std::string>& post_kinds();
// RT_ACTIVATION_* of "relu", "gelu", "gelu_tanh", "tanh" or "sigmoid"; 0 for any other name.
int32_t activation_function(const std::string& name);

// RT_FLOAT32 for "float32"; throws std::invalid_argument.
rt_dtype parse_dtype(const std::string& name);

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_RECIPE_H_
