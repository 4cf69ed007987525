// What is known of the terminal that a command prints to.
#ifndef RUNTIME_TERMINAL_TERMINAL_H_
#define RUNTIME_TERMINAL_TERMINAL_H_

namespace runtime::terminal {

// Whether a line can be drawn again on the file: it is a terminal, and its TERM is neither "dumb"
// nor unset. Any thread, as long as none changes the environment.
bool can_redraw(int file);

// How many columns a line of the file may have at this moment: the variable COLUMNS, else what the
// terminal says, else 80. 0: any number, because the file is no terminal.
int columns(int file);

}  // namespace runtime::terminal

#endif  // RUNTIME_TERMINAL_TERMINAL_H_
