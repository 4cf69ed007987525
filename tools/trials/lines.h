// What a child process writes into its pipes.
#ifndef TOOLS_TRIALS_LINES_H_
#define TOOLS_TRIALS_LINES_H_

#include <functional>
#include <string>

#include "runtime/launch/child.h"

namespace tools::trials {

// Reads what a non-blocking pipe holds now, and closes it at its end. Returns "" if there is
// nothing.
std::string read_available(runtime::launch::FileDescriptor& pipe);

// Cuts a stream of text into lines.
class Lines {
 public:
  // Calls `line` with each line that `text` completes, without the end of the line.
  void add(const std::string& text, const std::function<void(const std::string&)>& line);

 private:
  std::string rest_;  // of a line that is not complete
};

// The error message in what a program writes to its standard error output.
class ErrorText {
 public:
  void add(const std::string& text);
  // What follows the last line that begins with "error: ", else the last line; "" if nothing was
  // written.
  std::string message() const;

 private:
  std::string tail_;
};

}  // namespace tools::trials

#endif  // TOOLS_TRIALS_LINES_H_
