// Starts and ends the ranks of this machine as another launcher says.
#include "tools/launch/agent.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/error.h"
#include "runtime/launch/processes.h"
#include "runtime/launch/stores.h"
#include "tools/launch/assignment.h"
#include "tools/trials/pool.h"

namespace tools::launch {
namespace {

// Reads no more than the first line of the standard input, as orders follow.
std::string first_line() {
  std::string line;
  char c = 0;
  while (::read(STDIN_FILENO, &c, 1) == 1 && c != '\n') line += c;
  return line;
}

}  // namespace

int serve() {
  const Assignment assignment = read_assignment(first_line());
  if (::chdir(assignment.folder.c_str()) != 0)
    throw runtime::ConfigurationError("the working folder of the ranks on " + assignment.host +
                                      ": " + assignment.folder + ": " + std::strerror(errno) +
                                      "; make it there, or give another one with --folder");
  for (const auto& [name, value] : assignment.variables) ::setenv(name.c_str(), value.c_str(), 1);
  const auto get = [](const char* name) { return std::getenv(name); };
  const auto store = assignment.first_rank == 0
                         ? runtime::launch::keep_store(assignment.rendezvous, get)
                         : nullptr;
  runtime::launch::LaunchOptions options;
  options.ranks = assignment.ranks;
  options.arguments = assignment.arguments;
  options.launch_id = assignment.launch_id;
  options.log_folder = assignment.log_folder;
  options.saving = std::chrono::seconds(assignment.save_timeout_s);
  options.share = {.program = trials::runtime_program(),
                   .first_rank = assignment.first_rank,
                   .world_size = assignment.world_size,
                   .rendezvous = assignment.rendezvous,
                   .keeps_store = store != nullptr,
                   .orders = STDIN_FILENO};
  const int code = runtime::launch::launch_processes(options);
  // The launcher tells the other machines of a loss once this process has ended.
  if (store != nullptr && code != 0) store->hurry();
  return code;
}

}  // namespace tools::launch
