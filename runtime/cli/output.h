// The standard output. Commands write to it without checking for errors; they are checked here.
#ifndef RUNTIME_CLI_OUTPUT_H_
#define RUNTIME_CLI_OUTPUT_H_

namespace runtime::cli {

// Returns whether something that was printed has been lost: a full disk, a closed descriptor, a
// reader that has ended. Once true, the result stays true.
bool output_failed();

// run_command_line() calls it once when a command has printed everything. Throws OutputError if
// part of the output was lost.
void finish_output();

// Returns whether the standard output is a pipe or a socket whose reader has ended.
bool reader_has_gone();

// The exit code of a program whose reader has gone, as shells report the end by SIGPIPE.
inline constexpr int kReaderHasGone = 141;

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_OUTPUT_H_
