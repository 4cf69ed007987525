// Says where the process was when it crashed.
#ifndef RUNTIME_CLI_CRASH_H_
#define RUNTIME_CLI_CRASH_H_

namespace runtime::cli {

// From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT write the functions that the process was
// in, with their libraries, to standard error before they end it as they always do. Most crashes
// are those of plugins, which run in this process, and the names of their libraries say so. Builds
// with AddressSanitizer or ThreadSanitizer report crashes themselves.
// Equivalent to: Python's faulthandler.enable().
void report_crashes();

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_CRASH_H_
