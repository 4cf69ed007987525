// runtime: trains deep-learning models on the hardware that plugins provide.
#include <cstdio>
#include <exception>
#include <new>

#include "plugins/host/error.h"
#include "runtime/cli/commands.h"
#include "runtime/error.h"

namespace {

int report(const char* what, int code) {
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", what);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return runtime::cli::run_command_line(argc, argv);
  } catch (const runtime::Error& e) {
    return report(e.what(), static_cast<int>(e.exit_code()));
  } catch (const plugins::host::Error& e) {
    const bool communication = e.code() == RT_ERROR_COMMUNICATION || e.code() == RT_ERROR_TIMEOUT;
    return report(e.what(), static_cast<int>(communication ? runtime::ExitCode::kCommunication
                                                           : runtime::ExitCode::kPlugin));
  } catch (const std::bad_alloc&) {
    return report("out of host memory; use a smaller training.global_batch_size or data set",
                  static_cast<int>(runtime::ExitCode::kPlugin));
  } catch (const std::exception& e) {
    return report(e.what(), 1);
  }
}
