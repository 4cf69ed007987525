// The program `runtime-launch`, which `runtime launch` becomes.
#include <CLI/CLI.hpp>
#include <filesystem>

#include "runtime/cli/number_checks.h"
#include "runtime/error.h"
#include "tools/launch/agent.h"
#include "tools/launch/launch.h"
#include "tools/trials/pool.h"
#include "tools/trials/program.h"

namespace tools::launch {
namespace {

// A host that does not answer for 45 s is lost.
constexpr const char* kSsh =
    "ssh -T -o BatchMode=yes -o ControlPath=none -o ConnectTimeout=15 -o ServerAliveInterval=15 -o "
    "ServerAliveCountMax=3";

struct Options {
  std::string hosts, host_file, spares, agent = kSsh;
  int ranks = 1;
  bool serve = false;
  Arguments arguments;
};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

int run(Options& options) {
  if (options.serve) return serve();
  Arguments& a = options.arguments;
  if (!a.command.empty() && a.command[0] == "--") a.command.erase(a.command.begin());
  if (!a.command.empty() && a.command[0].starts_with('-'))
    throw runtime::ConfigurationError("runtime launch has no option " + a.command[0] +
                                      "; runtime launch --help lists those that it has, and the "
                                      "options of the command follow the command");
  if (options.hosts.empty() == options.host_file.empty())
    throw runtime::ConfigurationError(
        "give the machines of the job either with --hosts a,b or with --host-file FILE");
  a.hosts = options.hosts.empty() ? read_host_file(options.host_file, options.ranks)
                                  : parse_hosts(options.hosts, options.ranks);
  if (!options.spares.empty()) a.spares = parse_hosts(options.spares, options.ranks);
  if (a.min_hosts > static_cast<int>(a.hosts.size()))
    throw runtime::ConfigurationError("--min-hosts: got " + std::to_string(a.min_hosts) +
                                      ", expected at most the " + std::to_string(a.hosts.size()) +
                                      " machines of the job");
  if (a.command.empty())
    throw runtime::ConfigurationError(
        "give the command that all ranks run, as in: runtime launch --hosts a,b train CONFIG");
  a.agent = words_of(options.agent);
  if (a.agent.empty()) throw runtime::ConfigurationError("--agent: expected a program");
  if (a.program.empty()) a.program = trials::runtime_program();
  if (a.folder.empty()) a.folder = std::filesystem::current_path().string();
  return run_on_hosts(a);
}

// Adds the options that say how the job goes on when a machine is lost.
void add_losses(CLI::App& app, Options& o) {
  Arguments& a = o.arguments;
  app.add_option("--max-restarts", a.max_restarts,
                 "How often all ranks are started again after one was lost; default 0")
      ->check(runtime::cli::between(a.max_restarts, 0, 1000000));
  app.add_option("--spares", o.spares,
                 "Machines that take the places of lost ones, after --max-restarts restarts");
  CLI::Option* const fewer =
      app.add_option(
             "--min-hosts", a.min_hosts,
             "With how many machines the job goes on when one is lost and no spare is left; "
             "default: all")
          ->check(runtime::cli::positive(a.min_hosts));
  app.add_option("--rejoin-minutes", a.rejoin_minutes,
                 "Minutes between questions to machines that were left out; one that has the same "
                 "version of runtime is taken in after the next checkpoint, if the command has "
                 "--resume; 0: never; default 10")
      ->check(runtime::cli::between(a.rejoin_minutes, 0, 1e6))
      ->needs(fewer);
}

int main_of(int argc, char** argv) {
  CLI::App app{"Starts the ranks of a job on several machines, over ssh or another agent."};
  app.name("runtime launch");
  Options o;
  Arguments& a = o.arguments;
  int exit_code = 0;
  app.add_option("--hosts", o.hosts,
                 "The machines, with rank 0 on the first one: a,b or user@a,b:4 with four ranks");
  app.add_option("--host-file", o.host_file,
                 "A file with a machine a line, as those of mpirun: 'b slots=4'");
  app.add_option("--ranks-per-host", o.ranks,
                 "Ranks on each machine that is given without a number; default 1")
      ->check(runtime::cli::between(o.ranks, 1, 4096));
  app.add_option(
      "--agent", o.agent,
      "The program that runs a command on a machine, with its input and output; {host} becomes "
      "the machine, or the machine follows it; default: ssh without questions");
  app.add_option("--rendezvous", a.rendezvous,
                 "Where the ranks meet; default tcp://HOST:29500 with the first machine");
  app.add_option("--program", a.program,
                 "The path of runtime on the machines; default: that of this one");
  app.add_option("--folder", a.folder,
                 "The working folder on the machines; default: the same as here");
  app.add_option("--env", a.forwarded,
                 "A variable that the ranks get, beside RUNTIME_*; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--log-folder", a.log_folder,
                 "A folder on each machine for rank<number>.log with what its ranks print, each "
                 "line behind time and machine");
  add_losses(app, o);
  app.add_option(
         "--save-timeout", a.save_timeout_s,
         "Seconds for which rank 0 may go on saving after a rank was lost; default 1800, as "
         "comm.save_timeout_s")
      ->check(runtime::cli::positive(a.save_timeout_s));
  app.add_flag("--serve", o.serve, "What runs on each machine: reads there what to do")->group("");
  app.prefix_command();
  app.footer(
      "The command of runtime that all ranks run follows these options, with its own. The machines "
      "need the same\nversion of runtime and the same files, and must reach the first one at the "
      "port "
      "of --rendezvous; ssh must ask\nno questions. Each line of output says machine and rank, "
      "except "
      "those of rank 0's standard output. Ctrl-C lets\nthe ranks save. Of the section [launch] of "
      "a "
      "configuration nothing is used.\n"
      "Examples:\n"
      "  runtime launch --hosts a,b,c,d train CONFIG --set comm.backend=gloo --set "
      "comm.interface=eth0\n"
      "  runtime launch --hosts a:4,b:4 --max-restarts 3 train CONFIG --resume auto --set "
      "comm.interface=ib0\n"
      "  runtime launch --hosts a,b,c,d --min-hosts 2 --spares e train CONFIG --resume auto\n"
      "  runtime launch --host-file hosts --agent 'ssh -p 2222' train CONFIG");
  app.callback([&] {
    a.command = app.remaining();
    exit_code = run(o);
  });
  return trials::run_program(app, argc, argv, exit_code);
}

}  // namespace
}  // namespace tools::launch

int main(int argc, char** argv) { return tools::launch::main_of(argc, argv); }
