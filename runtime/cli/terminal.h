// What is known of the terminal that a command prints to.
#ifndef RUNTIME_CLI_TERMINAL_H_
#define RUNTIME_CLI_TERMINAL_H_

#include "runtime/train/reporter.h"

namespace runtime::cli {

// Whether the standard output is a terminal on which a line can be drawn again: not a pipe, and not
// one whose TERM is "dumb" or not set.
bool can_redraw();

// The columns of the terminal at the standard output at this moment; 0: not known.
int terminal_columns();

// The style for the standard output: colours on a terminal that can redraw, unless the environment
// has a NO_COLOR that is not empty (https://no-color.org).
train::TerminalStyle terminal_style();

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_TERMINAL_H_
