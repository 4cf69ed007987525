// Searches the simplest recipe that still fails.
#ifndef TESTS_DIFFERENTIAL_OPERATIONS_SHRINK_H_
#define TESTS_DIFFERENTIAL_OPERATIONS_SHRINK_H_

#include <functional>

#include "tests/differential/operations/recipe.h"

namespace differential {

// Simplifies the recipe step by step (threads, post-operations, special values, sizes) as long as
// `fails` is true, until no step is left or `most_trials` were made. `fails` is called only with
// recipes that make a valid operation.
Recipe shrink(const Recipe& recipe, const std::function<bool(const Recipe&)>& fails,
              int most_trials = 400);

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_SHRINK_H_
