// Turns exceptions into exit codes, and reads options that all programs on trials share.
#include "tools/trials/program.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>

#include "runtime/cli/help_format.h"
#include "runtime/cli/number_checks.h"
#include "runtime/error.h"
#include "runtime/system/atomic_file.h"
#include "tools/trials/pool.h"

namespace tools::trials {

namespace {

using runtime::ExitCode;
using runtime::config::Member;
using runtime::config::Value;

int report(const std::string& what, int code) {
  std::cout.flush();
  std::cerr << "error: " << what << std::endl;
  return code;
}

int parse(CLI::App& app, int argc, char** argv, const int& exit_code) {
  if (const auto format = runtime::cli::help_format()) {
    app.formatter(format);
    for (CLI::App* command : app.get_subcommands({})) command->formatter(format);
  }
  try {
    app.parse(argc, argv);
    return exit_code;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kConfiguration);
  }
}

}  // namespace

int run_program(CLI::App& app, int argc, char** argv, const int& exit_code) {
  int code = 0;
  try {
    code = parse(app, argc, argv, exit_code);
  } catch (const runtime::Error& error) {
    return report(error.what(), static_cast<int>(error.exit_code()));
  } catch (const std::exception& error) {
    return report(error.what(), static_cast<int>(ExitCode::kInternal));
  }
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::cout.good()) return code;
  return report("cannot write to the standard output; what was printed is not complete",
                static_cast<int>(ExitCode::kData));
}

void ConfigArguments::add_to(CLI::App& app) {
  app.add_option("CONFIG", path,
                 "The TOML file; `runtime --help` says where every key is described")
      ->required();
  app.add_option("--set", overrides, "section.key=value, overrides the file; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--nproc", ranks, "Ranks on this machine (launch.ranks)")
      ->check(runtime::cli::positive(ranks));
}

void ConfigArguments::append_to(std::vector<std::string>& arguments) const {
  arguments.push_back(path);
  for (const std::string& text : overrides) arguments.insert(arguments.end(), {"--set", text});
  if (ranks > 0)
    arguments.insert(arguments.end(), {"--set", "launch.ranks=" + std::to_string(ranks)});
}

Value ConfigArguments::resolved() const {
  std::vector<std::string> arguments = {"config", "show"};
  append_to(arguments);
  return runtime::config::parse_toml(output_of(arguments), path);
}

double number_of(const Value& config, const std::string& section, const std::string& key) {
  const Member* const table = config.find(section);
  const Member* const member = table == nullptr ? nullptr : table->value.find(key);
  if (member == nullptr) return 0;
  return member->value.is(Value::Kind::kInteger) ? static_cast<double>(member->value.integer)
                                                 : member->value.number;
}

void OutputFiles::add_to(CLI::App& app) {
  app.add_option("--output", paths,
                 "A file for the curve: .svg a plot, .json the numbers; may be repeated")
      ->allow_extra_args(false)
      ->check([](const std::string& path) {
        return path.ends_with(".svg") || path.ends_with(".json")
                   ? std::string()
                   : "got " + path + ", expected a name that ends in .svg or .json";
      });
}

void OutputFiles::write(const plot::Plot& plot, const Json& data) const {
  for (const std::string& path : paths) {
    runtime::system::write_file(
        path, path.ends_with(".svg") ? plot::svg_plot(plot) : data.dump(2) + "\n");
  }
}

}  // namespace tools::trials
