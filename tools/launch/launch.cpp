// Says to each host what it is to run, through an agent.
#include "tools/launch/launch.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <numeric>
#include <string_view>

#include "runtime/error.h"
#include "runtime/launch/processes.h"
#include "runtime/launch/sockets.h"
#include "tools/launch/assignment.h"

namespace tools::launch {
namespace {

constexpr const char* kTcp = "tcp://";
// A pipe takes so much at once; the launcher must not wait until a machine reads.
constexpr size_t kMostBytes = 60000;

// The variables of this program and those that the user names.
std::map<std::string, std::string> variables_for(const Arguments& arguments) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t end = text.find('=');
    if (end != text.npos && text.starts_with("RUNTIME_"))
      variables[std::string(text.substr(0, end))] = text.substr(end + 1);
  }
  for (const std::string& name : arguments.forwarded) {
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr)
      throw runtime::ConfigurationError("--env " + name +
                                        ": there is no such variable here; set it, or leave it "
                                        "out");
    variables[name] = value;
  }
  if (!variables.contains("RUNTIME_SECRET") && !variables.contains("RUNTIME_SECRET_FILE"))
    variables["RUNTIME_SECRET"] = arguments.secret;
  return variables;
}

// ssh gives the command to a shell on the host, which would take other characters for its own.
void check_program(const std::string& path) {
  const bool plain = std::ranges::all_of(path, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("/._+-").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain && !path.empty()) return;
  throw runtime::ConfigurationError("--program: got '" + path +
                                    "', expected the path of runtime on the hosts, of letters, "
                                    "digits and the characters / . _ + -");
}

void check_rendezvous(const Arguments& arguments, const std::string& address) {
  if (!address.starts_with(kTcp)) return;
  const runtime::launch::HostAndPort read = runtime::launch::host_and_port(address, kTcp);
  if (read.port < 1)
    throw runtime::ConfigurationError("--rendezvous: got '" + arguments.rendezvous +
                                      "', expected HOST:PORT with the host of rank 0 and a free "
                                      "port there");
  const bool loopback =
      read.host == "localhost" || read.host == "::1" || read.host.starts_with("127.");
  if (loopback && arguments.rendezvous.empty() && arguments.hosts.size() > 1)
    throw runtime::ConfigurationError(
        "the ranks would meet at " + address +
        ", which is another machine for each of them; name the first host as the others reach it, "
        "or give --rendezvous HOST:PORT");
}

std::vector<std::string> words_for(const Arguments& arguments, const Host& host,
                                   const std::vector<std::string>& options) {
  constexpr std::string_view kHost = "{host}";
  std::vector<std::string> words = arguments.agent;
  bool named = false;
  for (std::string& word : words) {
    for (size_t at = 0; (at = word.find(kHost, at)) != word.npos; at += host.name.size()) {
      word.replace(at, kHost.size(), host.name);
      named = true;
    }
  }
  if (!named) words.push_back(host.name);
  words.push_back(arguments.program);
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

// The machine of a rank; the number of machines if there is none.
size_t host_of(const Arguments& arguments, int rank) {
  size_t host = 0;
  for (int next = 0; host < arguments.hosts.size(); ++host) {
    next += arguments.hosts[host].ranks;
    if (rank < next) break;
  }
  return host;
}

}  // namespace

std::vector<runtime::launch::ChildSpec> agents_of(const Arguments& arguments) {
  check_program(arguments.program);
  Assignment assignment;
  assignment.folder = arguments.folder;
  assignment.arguments = arguments.command;
  assignment.variables = variables_for(arguments);
  assignment.world_size =
      std::accumulate(arguments.hosts.begin(), arguments.hosts.end(), 0,
                      [](int sum, const Host& host) { return sum + host.ranks; });
  assignment.rendezvous = arguments.rendezvous.empty()
                              ? address_of(arguments.hosts.at(0)) + ":" + kPort
                              : arguments.rendezvous;
  if (assignment.rendezvous.find('/') == std::string::npos)
    assignment.rendezvous = kTcp + assignment.rendezvous;
  check_rendezvous(arguments, assignment.rendezvous);
  assignment.save_timeout_s = arguments.save_timeout_s;
  assignment.launch_id = arguments.launch_id;
  assignment.log_folder = arguments.log_folder;
  std::vector<runtime::launch::ChildSpec> agents;
  for (const Host& host : arguments.hosts) {
    assignment.host = host.name;
    assignment.ranks = host.ranks;
    runtime::launch::ChildSpec spec;
    spec.name = "the agent for " + host.name;
    spec.rank = assignment.first_rank;
    spec.end_signal = 0;  // when this process is gone, the end of its input lets the ranks save
    // What programs read of rank 0 has no prefix.
    spec.err_prefix = "[" + host.name + "] ";
    if (assignment.first_rank > 0) spec.out_prefix = spec.err_prefix;
    spec.arguments = words_for(arguments, host, {"launch", "--serve"});
    spec.program = spec.arguments[0];
    spec.remedy = "install it, or give another program with --agent";
    spec.input = line_of(assignment);
    if (spec.input->size() > kMostBytes)
      throw runtime::ConfigurationError(
          "the command and the variables for " + host.name + " have " +
          std::to_string(spec.input->size()) + " bytes, expected at most " +
          std::to_string(kMostBytes) +
          "; give fewer with --env, or put them into the configuration");
    agents.push_back(std::move(spec));
    assignment.first_rank += host.ranks;
  }
  return agents;
}

bool leave_out(Arguments& arguments, int rank) {
  const bool elastic = arguments.min_hosts > 0 || !arguments.spares.empty();
  if (rank < 0) {
    if (elastic)
      std::cerr << "error: it is not known which machine was lost, so that none can be left out\n";
    return false;
  }
  const size_t lost = host_of(arguments, rank);
  if (lost == arguments.hosts.size()) return false;
  const std::string name = arguments.hosts[lost].name;
  if (lost == 0) {
    if (elastic)
      std::cerr << "error: " << name
                << " is the machine of rank 0, which has the store of the job, and is not left "
                   "out; start again with another first machine that sees the checkpoints\n";
    return false;
  }
  if (!arguments.spares.empty()) {
    const size_t place = arguments.hosts[lost].place;
    arguments.hosts[lost] = arguments.spares.front();
    arguments.hosts[lost].place = place;
    arguments.hosts[lost].is_new = true;
    arguments.spares.erase(arguments.spares.begin());
    std::cerr << arguments.hosts[lost].name << " takes the place of " << name
              << ", which is lost\n";
    return true;
  }
  const size_t left = arguments.hosts.size() - 1;
  if (arguments.min_hosts > 0 && left >= static_cast<size_t>(arguments.min_hosts)) {
    add_left_out(arguments.left_out, arguments.hosts[lost]);
    arguments.hosts.erase(arguments.hosts.begin() + static_cast<std::ptrdiff_t>(lost));
    std::cerr << name << " is left out: " << left << " of " << left + 1 << " machines go on\n";
    return true;
  }
  if (elastic)
    std::cerr << "error: without " << name << " too few machines are left (" << left
              << ", and no spare), because --min-hosts is "
              << (arguments.min_hosts > 0 ? std::to_string(arguments.min_hosts) : "not given")
              << '\n';
  return false;
}

int run_on_hosts(Arguments arguments) {
  runtime::launch::LaunchOptions options;
  options.max_restarts = arguments.max_restarts;
  options.saving = std::chrono::seconds(arguments.save_timeout_s);
  for (size_t i = 0; i < arguments.hosts.size(); ++i) arguments.hosts[i].place = i;
  Inquiry inquiry;
  const auto start = [&] {
    inquiry.end();
    take_back(arguments.left_out, arguments.hosts);
    return agents_of(arguments);
  };
  const auto is_new = [&](int rank) {
    const size_t host = rank < 0 ? arguments.hosts.size() : host_of(arguments, rank);
    return host < arguments.hosts.size() && arguments.hosts[host].is_new;
  };
  const auto is_back = [&] {
    for (Host& host : arguments.hosts) host.is_new = false;  // it has worked for an interval
    return inquiry.ask(arguments.left_out,
                       [&](const Host& host) { return words_for(arguments, host, {"--version"}); });
  };
  // Ranks that begin anew each time would lose what they have computed.
  const bool resumes = std::ranges::any_of(
      arguments.command, [](const std::string& word) { return word.starts_with("--resume"); });
  const std::chrono::duration<double, std::ratio<60>> rejoin(resumes ? arguments.rejoin_minutes
                                                                     : 0);
  return runtime::launch::launch_launchers(
      options, {.launchers = start,
                .leave_out = [&](int rank) { return leave_out(arguments, rank); },
                .is_new = is_new,
                .is_back = is_back,
                .rejoin = std::chrono::duration_cast<std::chrono::nanoseconds>(rejoin)});
}

}  // namespace tools::launch
