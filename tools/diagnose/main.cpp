// The program `runtime-diagnose`, which `runtime diagnose` becomes.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "tools/diagnose/diagnose.h"
#include "tools/trials/program.h"

namespace tools::diagnose {
namespace {

int main_of(int argc, char** argv) {
  CLI::App app{"Says which rank kept the others of a job waiting, from what the ranks have left."};
  app.name("runtime diagnose");
  std::string folder;
  int exit_code = 0;
  app.add_option("FOLDER", folder,
                 "The folder of the run, with rank-*-collectives.json; those of other machines may "
                 "be copied there")
      ->required();
  app.footer(
      "Ranks write these files when their job cannot go on, and after SIGUSR2. Times are those of "
      "each machine's clock.\n"
      "Examples:\n"
      "  runtime diagnose outputs/gpt/20261130-104530");
  app.callback([&] {
    std::string left_out;
    const Files files = read_folder(folder, left_out);
    std::printf("%s%s\n%s\n%s", left_out.c_str(), verdict_of(files).c_str(),
                debts_of(files).c_str(), table_of(files).c_str());
  });
  return trials::run_program(app, argc, argv, exit_code);
}

}  // namespace
}  // namespace tools::diagnose

int main(int argc, char** argv) { return tools::diagnose::main_of(argc, argv); }
