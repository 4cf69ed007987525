// `runtime tune lr`.
#ifndef TOOLS_TUNE_LR_H_
#define TOOLS_TUNE_LR_H_

#include <cstdint>

#include "tools/trials/program.h"

namespace tools::tune {

struct LrArguments {
  trials::ConfigArguments config;
  trials::OutputFiles output;
  double from = 1e-6, to = 10;  // values of optimizer.lr
  int64_t steps = 100;
  double diverged = 4;  // see DivergenceWatch
};

// Trains `steps` steps from new weights while optimizer.lr grows from `from` to `to` by the same
// factor each step, and prints the loss by rate. Then trains as many steps at one rate, which is
// lowered until the loss falls, and suggests that rate. Returns the exit code: 0, or 128 +
// a signal that ended it. Throws runtime::Error if training fails before the loss has diverged, if
// the curve says nothing, or if no rate that was tried makes the loss fall. Equivalent to:
// Lightning's Tuner.lr_find(mode="exponential").
int tune_lr(const LrArguments& arguments);

}  // namespace tools::tune

#endif  // TOOLS_TUNE_LR_H_
