// Reads /proc for the children of processes, their states and their programs.
#include "runtime/launch/process_tree.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace runtime::launch {

namespace {

std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t process = static_cast<pid_t>(std::atoi(entry.path().filename().c_str()));
    if (process > 0) children.emplace(parent_of(process), process);
  }
  return children;
}

bool runs_this_program(pid_t process) {
  struct stat own, other;
  return stat("/proc/self/exe", &own) == 0 &&
         stat(("/proc/" + std::to_string(process) + "/exe").c_str(), &other) == 0 &&
         own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

// The third and the fourth field of /proc/<pid>/stat. The second field, the name, may contain
// blanks and ends at the last ')'.
struct Stat {
  char state = 0;
  pid_t parent = 0;
};

Stat stat_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  Stat stat;
  std::sscanf(line.c_str() + std::min(line.size(), line.rfind(')') + 1), " %c %d", &stat.state,
              &stat.parent);
  return stat;
}

}  // namespace

pid_t parent_of(pid_t process) { return stat_of(process).parent; }

bool is_stopped(pid_t process) { return stat_of(process).state == 'T'; }

ProcessTree::ProcessTree() {
  const auto children = children_by_parent();
  for (auto [i, end] = children.equal_range(getpid()); i != end; ++i) others_.insert(i->second);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

ProcessTree::~ProcessTree() {
  end();
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

std::vector<pid_t> ProcessTree::processes() const {
  const auto children = children_by_parent();
  std::vector<pid_t> list = {getpid()};
  for (size_t k = 0; k < list.size(); ++k) {
    for (auto [i, end] = children.equal_range(list[k]); i != end; ++i)
      if (!others_.contains(i->second)) list.push_back(i->second);
  }
  list.erase(list.begin());
  return list;
}

void ProcessTree::send(int signal) const {
  for (const pid_t process : processes()) kill(process, signal);
}

bool ProcessTree::send_to_ranks(int signal) const {
  bool any = false;
  for (const pid_t process : processes())
    any |= runs_this_program(process) && kill(process, signal) == 0;
  return any;
}

void ProcessTree::end() const {
  for (std::vector<pid_t> list = processes(); !list.empty(); list = processes()) {
    for (const pid_t process : list) kill(process, SIGKILL);
    // waitpid fails at once for a process that is not a child of this one yet.
    for (const pid_t process : list) waitpid(process, nullptr, 0);
  }
}

}  // namespace runtime::launch
