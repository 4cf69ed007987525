// Flushes the standard output and finds out what has become of it.
#include "runtime/cli/output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <system_error>

#include "runtime/output_error.h"

namespace runtime::cli {

// std::cout and fmt::print both write through stdout, which remembers errors.
bool output_failed() { return std::ferror(stdout) != 0 || !std::cout.good(); }

void finish_output() {
  std::cout.flush();
  errno = 0;
  const int error = std::fflush(stdout) == 0 ? 0 : errno;
  if (error == 0 && !output_failed()) return;
  throw OutputError("cannot write to the standard output" +
                    (error == 0 ? "" : ": " + std::generic_category().message(error)) +
                    "; what was printed is not complete: make room (df), or send it elsewhere");
}

// Nobody asks for POLLERR, which poll() reports of a pipe without a reader.
bool reader_has_gone() {
  pollfd out{STDOUT_FILENO, 0, 0};
  return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace runtime::cli
