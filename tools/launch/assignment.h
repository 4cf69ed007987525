// The ranks that a launcher asks its agent on a machine to run.
#ifndef TOOLS_LAUNCH_ASSIGNMENT_H_
#define TOOLS_LAUNCH_ASSIGNMENT_H_

#include <map>
#include <string>
#include <vector>

namespace tools::launch {

// The ranks of one machine.
struct Assignment {
  std::string host = {};                              // for messages
  std::string folder = {};                            // the working folder of the ranks
  std::vector<std::string> arguments = {};            // of `runtime`
  std::map<std::string, std::string> variables = {};  // of the environment
  int first_rank = 0, ranks = 1, world_size = 1;
  int save_timeout_s = 0;       // how long rank 0 may go on saving after another rank has failed
  std::string rendezvous = {};  // tcp://host:port
  std::string launch_id = {};
  std::string log_folder = {};  // of LaunchOptions

  bool operator==(const Assignment&) const = default;
};

// Returns the assignment as a line of JSON, with the version of this program.
std::string line_of(const Assignment& assignment);

// Throws ConfigurationError if the line is no assignment, or one of another version.
Assignment read_assignment(const std::string& line);

}  // namespace tools::launch

#endif  // TOOLS_LAUNCH_ASSIGNMENT_H_
