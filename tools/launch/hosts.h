// The machines of a job, as the user names them.
#ifndef TOOLS_LAUNCH_HOSTS_H_
#define TOOLS_LAUNCH_HOSTS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tools::launch {

struct Host {
  std::string name;  // as the agent takes it: "b", "user@b", "10.0.0.2", "fd00::2"
  int ranks = 1;
  size_t place = 0;     // among the machines that the job began with
  bool is_new = false;  // it has come into the job later, and has not worked for long
  int returns = 0;      // how often it was left out and taken in again
};

// Reads "a,user@b:4,[fd00::2]:2". A host without a number gets `ranks` ranks. A host that is named
// twice is two hosts. Throws ConfigurationError that names the entry that is wrong.
std::vector<Host> parse_hosts(std::string_view list, int ranks);

// Reads a file with a host a line, as those of mpirun: "b", "b slots=4" or "b:4"; what follows '#'
// is a comment. Throws ConfigurationError with the line that is wrong, or if the file cannot be
// read.
std::vector<Host> read_host_file(const std::string& path, int ranks);

// Returns the host for an address with a port: without the user, an IPv6 address in brackets.
std::string address_of(const Host& host);

}  // namespace tools::launch

#endif  // TOOLS_LAUNCH_HOSTS_H_
