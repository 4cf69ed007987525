// The frame of main(): what happens before a command runs, and how its errors become exit codes.
#ifndef RUNTIME_CLI_PROGRAM_H_
#define RUNTIME_CLI_PROGRAM_H_

namespace runtime::cli {

// Prepares the process (standard streams, limits, reports of crashes), calls `command_line` and
// returns its result, or the exit code of what it throws (runtime/error.h) after printing that. To
// be called once, by main().
int run_program(int argc, char** argv, int (*command_line)(int argc, char** argv));

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_PROGRAM_H_
