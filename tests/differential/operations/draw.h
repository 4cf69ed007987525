// Draws recipes from a seed.
#ifndef TESTS_DIFFERENTIAL_OPERATIONS_DRAW_H_
#define TESTS_DIFFERENTIAL_OPERATIONS_DRAW_H_

#include <string>
#include <vector>

#include "tests/differential/operations/recipe.h"

namespace differential {

// The choices to draw from. The same options draw the same recipes on every machine.
struct DrawOptions {
  std::vector<rt_dtype> types = {RT_FLOAT32};
  std::vector<std::string> operations;  // empty: all operations
};

// Returns case `number` of `seed`, which is a valid recipe.
Recipe draw_recipe(const DrawOptions& options, uint64_t seed, uint64_t number);

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_DRAW_H_
