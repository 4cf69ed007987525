// The program runtime-plugins-check, which is `runtime plugins check`: tries a plugin against the
// contract.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>

#include "plugins/check/models.h"
#include "plugins/check/ranks.h"
#include "plugins/check/report.h"
#include "plugins/check/supervisor.h"
#include "plugins/host/error.h"
#include "plugins/host/nearest.h"
#include "plugins/host/registry.h"

namespace {

namespace check = plugins::check;
namespace host = plugins::host;
namespace fs = std::filesystem;

// The exit codes of runtime/error.h.
enum ExitCode { kDone = 0, kConfiguration = 2, kPlugin = 3 };

constexpr char kHelp[] =
    "Tries a plugin against the contract: exports, sizes, memory, streams, events, kernels, "
    "ranks, readers of data sets, operations.\n"
    "Every check runs in a child process, so that a crash or an endless loop costs one check only."
    "\n\nexamples:\n"
    "  runtime plugins check build/lib/runtime/plugins/my_device.so\n"
    "  runtime plugins check cpu --quick\n"
    "  runtime plugins check my_device.so --only events --only streams\n"
    "  runtime plugins check my_device.so --require lenet --junit check.xml   (for CI)\n"
    "  runtime plugins check my_reader.so --sample train.txt --shape 13\n\n"
    "Exit code: 0 if no check failed and the required models train, 3 if not, 2 for a wrong "
    "command.";

struct Arguments {
  std::string library, sample;
  std::vector<std::string> options, groups, required;
  std::string json, junit;
  std::vector<size_t> child;
  std::string store;
  int32_t rank = -1, ranks = 1;
  bool mpi_rank = false, list = false;
  int64_t limit = 180;
  check::Setup setup;
};

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

fs::path built_in_plugins() {
  return (fs::read_symlink("/proc/self/exe").parent_path() / "../../lib/runtime/plugins")
      .lexically_normal();
}

// A path, or the name of a plugin that the runtime finds.
fs::path find_library(const std::string& named) {
  if (named.find('/') != std::string::npos || fs::exists(named)) {
    if (!fs::exists(named))
      throw UsageError("there is no file " + named + "; expected a plugin's library or its name");
    return fs::absolute(named).lexically_normal();
  }
  host::SearchPath path = host::SearchPath::standard();
  path.built_in = built_in_plugins();
  path.probe = fs::read_symlink("/proc/self/exe").parent_path() / "plugin_probe";
  const host::Registry registry(path, {});
  return registry.require(named).file.named;
}

void expect_one_of(const char* option, const std::string& word,
                   const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), word) != known.end()) return;
  throw UsageError(fmt::format("{} {} is unknown{}", option, word, host::suggestion(word, known)));
}

void complete_setup(Arguments& arguments) {
  check::Setup& setup = arguments.setup;
  setup.library = find_library(arguments.library);
  setup.reference = built_in_plugins() / "libbackend_reference.so";
  if (!arguments.sample.empty()) {
    setup.sample.path = fs::absolute(arguments.sample);
    if (!fs::exists(setup.sample.path))
      throw UsageError("--sample " + arguments.sample + ": there is no such file or folder");
  }
  for (const std::string& option : arguments.options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos)
      throw UsageError("--set " + option + ": expected KEY=VALUE, an option of the plugin");
    setup.options[option.substr(0, equals)] = option.substr(equals + 1);
  }
  const std::vector<std::string> known = check::group_names();
  for (const std::string& group : arguments.groups) expect_one_of("--only", group, known);
  std::vector<std::string> presets;
  for (const check::ModelOperations& model : check::model_operations())
    presets.push_back(model.preset);
  for (const std::string& preset : arguments.required) expect_one_of("--require", preset, presets);
}

void declare(CLI::App& app, Arguments& a) {
  app.add_option("LIBRARY", a.library, "The plugin's library, or the name of an installed plugin");
  app.add_option("--device", a.setup.device, "Index of the device")->capture_default_str();
  app.add_option("--set", a.options, "KEY=VALUE, an option of the plugin; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--only", a.groups, "A group of checks; may be repeated")->allow_extra_args(false);
  app.add_option("--require", a.required,
                 "A preset that the plugin must be able to train; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--sample", a.sample,
                 "A data set that the plugin reads, for the checks of readers");
  app.add_option("--format", a.setup.sample.format,
                 "The format of the sample, if there are several");
  app.add_option("--shape", a.setup.sample.shape, "What a model takes of a sample: 13, or 28,28,1")
      ->delimiter(',');
  app.add_flag("--regression", a.setup.sample.numbers, "The targets of the sample are numbers");
  app.add_flag("--quick", a.setup.quick, "Six cases of each operation and type");
  app.add_option("--limit", a.limit, "Seconds that one check may take")->capture_default_str();
  app.add_option("--json", a.json, "Writes the results to a file, as JSON");
  app.add_option("--junit", a.junit, "Writes the results to a file, as JUnit XML");
  app.add_flag("--list", a.list, "Lists the checks and runs none");
  app.set_version_flag("--version", RUNTIME_VERSION);
  // How this program starts itself:
  app.add_option("--child", a.child)->expected(2)->group("");
  app.add_option("--store", a.store)->group("");
  app.add_option("--rank", a.rank)->group("");
  app.add_option("--ranks", a.ranks)->group("");
  app.add_flag("--mpi-rank", a.mpi_rank)->group("");
}

void write(const std::string& file, const std::string& text) {
  if (file.empty()) return;
  std::ofstream stream(file, std::ios::binary);
  if (!(stream << text).flush()) throw UsageError("cannot write " + file);
}

void list(const std::vector<check::Check>& checks) {
  for (const check::Check& c : checks) fmt::print("{:<13} {}\n", c.group, c.name);
}

int supervise(const Arguments& arguments, const std::vector<check::Check>& checks,
              std::vector<std::string> words) {
  const check::ChildCommand command{fs::read_symlink("/proc/self/exe"), std::move(words),
                                    std::chrono::seconds(arguments.limit)};
  const auto print = [](const check::Row& row) {
    fmt::print("{}", check::line_of(row));
    std::fflush(stdout);
  };
  const std::vector<check::Row> rows = check::run_in_children(checks, command, print);
  fmt::print("{}", check::summary_of(rows));
  write(arguments.json, check::json_of(arguments.setup, rows));
  write(arguments.junit, check::junit_of(arguments.setup, rows));
  bool good = check::failures_in(rows) == 0;
  for (const std::string& preset : arguments.required) {
    const std::string reason = check::why_not(preset, rows);
    if (reason.empty()) continue;
    fmt::print("required: {} does not train: {}\n", preset, reason);
    good = false;
  }
  return good ? kDone : kPlugin;
}

int run(int argc, char** argv) {
  CLI::App app(kHelp, "runtime plugins check");
  Arguments arguments;
  declare(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string(error.what()) + "; see runtime plugins check --help");
  }
  if (arguments.list) {
    list(check::list_checks(arguments.groups));
    return kDone;
  }
  if (arguments.library.empty())
    throw UsageError(
        "LIBRARY is missing: name a plugin's library; see runtime plugins check --help");
  complete_setup(arguments);
  const std::vector<check::Check> checks = check::list_checks(arguments.groups);
  if (!arguments.child.empty() || arguments.rank >= 0 || arguments.mpi_rank)
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (arguments.mpi_rank) {
    check::run_rank_process(arguments.setup, check::place_under_mpi(arguments.store));
  } else if (arguments.rank >= 0) {
    check::run_rank_process(arguments.setup, {arguments.rank, arguments.ranks, arguments.store});
  } else if (!arguments.child.empty()) {
    check::Context context(arguments.setup);
    check::run_as_child(checks, context, arguments.child[0], arguments.child[1]);
  } else {
    return supervise(arguments, checks, {argv + 1, argv + argc});
  }
  return kDone;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const UsageError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return kConfiguration;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return kPlugin;
  }
}
