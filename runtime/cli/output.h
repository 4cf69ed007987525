// The standard output, which every command writes to as if it could not fail.
#ifndef RUNTIME_CLI_OUTPUT_H_
#define RUNTIME_CLI_OUTPUT_H_

namespace runtime::cli {

// Whether something that was printed did not arrive: a full disk, a closed descriptor, a reader
// that has ended. Once true it stays so.
bool output_failed();

// Called once, by run_command_line(), when a command has printed all that it has to say. Throws
// DataError (exit 5) if part of it was lost.
void finish_output();

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_OUTPUT_H_
