// The kernels of a step, and the least time that a device with given limits needs for them.
#ifndef RUNTIME_CLI_KERNELS_H_
#define RUNTIME_CLI_KERNELS_H_

#include "runtime/analysis/cluster.h"
#include "runtime/train/rank/step_programs.h"

namespace runtime::cli {

// Prints a table of the kernels that a step of a rank queues and their least times on the device of
// the sheet, or that the device which makes the plan does not tell them.
void show_kernels(train::StepPrograms& programs, const analysis::DeviceSheet& sheet);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_KERNELS_H_
