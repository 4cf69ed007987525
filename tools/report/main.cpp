// The program runtime-report, which is `runtime report`: makes a page of the files of runs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "runtime/cli/help_format.h"
#include "runtime/error.h"
#include "runtime/system/atomic_file.h"
#include "tools/report/page.h"

namespace {

struct Arguments {
  std::vector<std::string> paths;
  std::string output = "report.html";
};

constexpr char kHelp[] =
    "Makes one HTML page of the files of runs: curves, speed, profile, scaling, configuration. It "
    "needs no network and no other file.\n\nexamples:\n"
    "  runtime report outputs/lenet/20260131-101500\n"
    "  runtime report run-a run-b run-c --output compare.html\n"
    "  runtime report sweeps/lr --output sweep.html\n"
    "  runtime report run-a scaling.json   (what runtime bench --scaling 1,2,4 --json has printed)";

void make_report(const Arguments& arguments) {
  const tools::report::Inputs inputs =
      tools::report::read_inputs({arguments.paths.begin(), arguments.paths.end()});
  for (const tools::report::Run& run : inputs.runs) {
    for (const std::string& note : run.notes)
      std::fprintf(stderr, "note: %s: %s\n", run.name.c_str(), note.c_str());
  }
  for (const tools::report::Sweep& sweep : inputs.sweeps) {
    for (const std::string& note : sweep.notes)
      std::fprintf(stderr, "note: %s: %s\n", sweep.name.c_str(), note.c_str());
  }
  runtime::system::write_file(arguments.output, tools::report::page(inputs));
  if (arguments.output == "/dev/stdout") return;
  std::printf("report: %s\n", arguments.output.c_str());
  if (std::fflush(stdout) != 0) throw runtime::DataError("cannot write to the standard output");
}

int report_error(const char* what, runtime::ExitCode code) {
  std::fprintf(stderr, "error: %s\n", what);
  return static_cast<int>(code);
}

int run(int argc, char** argv) {
  CLI::App app(kHelp, "runtime report");
  if (const auto format = runtime::cli::help_format()) app.formatter(format);
  Arguments arguments;
  app.add_option("PATH", arguments.paths,
                 "folders of runs or of sweeps, and files of runtime bench --json")
      ->required();
  app.add_option("--output", arguments.output, "the file that is written")->capture_default_str();
  app.set_version_flag("--version", RUNTIME_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    throw runtime::ConfigurationError(std::string(e.what()) + "; see runtime report --help");
  }
  make_report(arguments);
  return static_cast<int>(runtime::ExitCode::kDone);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const runtime::Error& e) {
    return report_error(e.what(), e.exit_code());
  } catch (const std::bad_alloc&) {
    return report_error("out of memory; report fewer or smaller runs at a time",
                        runtime::ExitCode::kPlugin);
  } catch (const std::exception& e) {
    return report_error(e.what(), runtime::ExitCode::kInternal);
  }
}
