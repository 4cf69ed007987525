// What the programs built on trials have in common: exit codes and files for curves.
#ifndef TOOLS_TRIALS_PROGRAM_H_
#define TOOLS_TRIALS_PROGRAM_H_

#include <functional>
#include <string>
#include <vector>

#include "tools/plot/plot.h"
#include "tools/trials/settings.h"

namespace CLI {
class App;
}

namespace tools::trials {

// Parses the command line and runs the command that `app` calls back, which sets `exit_code` if it
// ends in another way than 0. Returns the exit code for main(): 2 for a wrong command line, and
// that of a runtime::Error, whose message it prints; 5 if the standard output could not be written.
int run_program(CLI::App& app, int argc, char** argv, const int& exit_code);

// CONFIG, --set and --nproc, as `runtime` has them.
struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides;
  int ranks = 0;  // 0: not given

  void add_to(CLI::App& app);
  // Appends CONFIG and the options to a command line of `runtime`.
  void append_to(std::vector<std::string>& arguments) const;
  // Returns the resolved configuration, as `runtime config show` prints it. Throws runtime::Error
  // with the message of `runtime` if the configuration is wrong.
  runtime::config::Value resolved() const;
};

// Returns a number of a resolved configuration; 0 if the key is not there.
double number_of(const runtime::config::Value& config, const std::string& section,
                 const std::string& key);

// The files that --output names. A name that ends in .svg gets the plot, one that ends in .json the
// data.
struct OutputFiles {
  std::vector<std::string> paths;

  void add_to(CLI::App& app);
  // Throws DataError if a file cannot be written.
  void write(const plot::Plot& plot, const Json& data) const;
};

}  // namespace tools::trials

#endif  // TOOLS_TRIALS_PROGRAM_H_
