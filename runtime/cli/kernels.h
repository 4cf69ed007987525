// The kernels of a step, and the least time that a device with given limits needs for them.
#ifndef RUNTIME_CLI_KERNELS_H_
#define RUNTIME_CLI_KERNELS_H_

#include "runtime/cli/commands.h"
#include "runtime/train/rank/step_programs.h"

namespace runtime::cli {

// Prints a table of the kernels that a step of a rank queues, if `arguments` has the limits of a
// device.
void show_kernels(train::StepPrograms& programs, const PlanArguments& arguments);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_KERNELS_H_
