// The trials of a sweep: which settings each has.
#ifndef TOOLS_SWEEP_TRIAL_H_
#define TOOLS_SWEEP_TRIAL_H_

#include <vector>

#include "tools/sweep/sweep_file.h"

namespace tools::sweep {

// One point of the search space; its number is its place in the list.
struct Trial {
  trials::Settings settings;  // one for each parameter, in their order
};

// Returns every combination of a grid, the last parameter varying fastest, or the samples of a
// random search. A sample depends on the seed, its number and the place of the parameter only, so
// that a sweep with more trials begins with the same ones. Devices must have been listed.
// Throws ConfigurationError for a grid of more than 100,000 combinations.
std::vector<Trial> make_trials(const Sweep& sweep);

// Returns the names of the backends that have a usable device, from the output of `runtime
// devices`, in its order.
std::vector<trials::Json> usable_backends(const std::string& devices);

}  // namespace tools::sweep

#endif  // TOOLS_SWEEP_TRIAL_H_
