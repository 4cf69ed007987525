// Looks for the simplest recipe that still fails.
#ifndef TESTS_DIFFERENTIAL_OPERATIONS_SHRINK_H_
#define TESTS_DIFFERENTIAL_OPERATIONS_SHRINK_H_

#include <functional>

#include "tests/differential/operations/recipe.h"

namespace differential {

// Takes one thing after the other away (threads, post-operations, special values, sizes) as long as
// `fails` holds, until nothing more can be taken or `most_trials` were made. `fails` is never asked
// about a recipe that makes no valid operation.
Recipe shrink(const Recipe& recipe, const std::function<bool(const Recipe&)>& fails,
              int most_trials = 400);

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_SHRINK_H_
