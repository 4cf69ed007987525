// The program `runtime`, which trains deep-learning models on the hardware that plugins provide.
#include "runtime/cli/commands.h"
#include "runtime/cli/program.h"

int main(int argc, char** argv) {
  return runtime::cli::run_program(argc, argv, runtime::cli::run_command_line);
}
