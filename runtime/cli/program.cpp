// Prepares the process, and turns what a command throws into a message and an exit code.
#include "runtime/cli/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "plugins/host/error.h"
#include "runtime/cli/crash.h"
#include "runtime/cli/output.h"
#include "runtime/error.h"
#include "runtime/output_error.h"
#include "runtime/system/available_memory.h"
#include "runtime/system/descriptors.h"

namespace runtime::cli {
namespace {

// Opens /dev/null for descriptors 0 to 2 that the caller has closed. Otherwise the next files that
// are opened would get these numbers and be taken for the standard streams. /dev/null is opened in
// the opposite direction, so that reading or writing remains an error.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    const int opened = open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened != stream) _exit(static_cast<int>(ExitCode::kPlugin));
  }
}

// Bounds how long a waiting thread of a plugin's OpenMP team polls before it sleeps. GNU's libgomp
// polls for several milliseconds, longer than a time slice of the scheduler: where other processes
// want the processors too, threads then burn their share of time instead of giving it to the thread
// that they wait for. 10,000 rounds are about 0.2 to 0.5 ms. libgomp reads the variable when it is
// loaded, with the first plugin that needs it. Other OpenMP libraries ignore it.
void bound_polling_of_threads() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "10000", /*overwrite=*/0);
}

// Whether main() still works. A plugin that calls exit() would end the program with a code of its
// own, perhaps 0, and without saving. Nothing else can tell such an end from the regular one.
std::atomic<bool> is_working = true;

void refuse_exit_of_others() {
  if (!is_working) return;
  constexpr std::string_view kText =
      "error: something in this process has called exit() before the work was done; a plugin or a "
      "library of one must answer with an error instead\n";
  if (write(STDERR_FILENO, kText.data(), kText.size()) < 0) {  // nothing can report this
  }
  _exit(static_cast<int>(ExitCode::kPlugin));
}

int report(const char* what, int code) {
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", what);
  return code;
}

int report_no_memory() {
  char memory[200], text[400];
  system::describe_memory(memory);
  std::snprintf(text, sizeof text,
                "out of host memory: %s; use a smaller training.global_batch_size or data set, or "
                "raise the limit",
                memory);
  return report(text, static_cast<int>(ExitCode::kPlugin));
}

// Exceptions cannot be caught while a library is being loaded, but its initialisers, for example
// those of oneDNN 3, allocate memory too.
[[noreturn]] void end_of_what_nobody_caught() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    _exit(report_no_memory());
  } catch (const std::exception& e) {
    report(e.what(), 1);
  } catch (...) {
    report("something that is no exception was thrown", 1);
  }
  std::abort();
}

int run(int argc, char** argv, int (*command_line)(int, char**)) {
  // A reader that has ended is then an error of write() and does not end the training.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return command_line(argc, argv);
  } catch (const OutputError& e) {
    if (reader_has_gone()) return kReaderHasGone;
    return report(e.what(), static_cast<int>(e.exit_code()));
  } catch (const ToldError& e) {
    return static_cast<int>(e.exit_code());
  } catch (const Error& e) {
    return report(e.what(), static_cast<int>(e.exit_code()));
  } catch (const plugins::host::Error& e) {
    return report(e.what(), static_cast<int>(e.is_of_communication() ? ExitCode::kCommunication
                                                                     : ExitCode::kPlugin));
  } catch (const std::bad_alloc&) {
    return report_no_memory();
  } catch (const std::system_error& e) {
    const std::string what = std::string("the system refuses: ") + e.what() +
                             "; this is most often a thread for which there is no memory or no "
                             "place: raise the limits (ulimit -v, -u), or lower device.threads, "
                             "dataset.workers or the number of ranks";
    return report(what.c_str(), static_cast<int>(ExitCode::kPlugin));
  } catch (const std::exception& e) {
    return report(e.what(), 1);
  }
}

}  // namespace

int run_program(int argc, char** argv, int (*command_line)(int, char**)) {
  open_standard_streams();
  bound_polling_of_threads();
  system::raise_descriptor_limit();
  // This also makes the C library load what pthread_exit() needs, which it otherwise does in the
  // first thread that ends this way. Those of libgomp do; without memory at that moment they would
  // abort.
  report_crashes();
  std::set_terminate(end_of_what_nobody_caught);
  std::atexit(refuse_exit_of_others);
  const int code = run(argc, argv, command_line);
  is_working = false;
  return code;
}

}  // namespace runtime::cli
