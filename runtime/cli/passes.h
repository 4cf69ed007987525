// The passes that compile a step: what each makes of the graph.
#ifndef RUNTIME_CLI_PASSES_H_
#define RUNTIME_CLI_PASSES_H_

#include "runtime/cli/commands.h"
#include "runtime/train/rank/step_programs.h"

namespace runtime::cli {

// Compiles the training step of a rank and prints a table of its passes, if `arguments.passes`;
// writes the graph after each pass into `arguments.dump_graph`, if it is set. Throws DataError if
// the folder cannot be written, and what compiling throws.
void show_passes(train::StepPrograms& programs, const PlanArguments& arguments);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_PASSES_H_
