// Starts the ranks of a test as processes, waits for them with a deadline, and kills what is left.
#include "tests/collectives/support/job.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "tests/collectives/support/rank.h"

namespace collectives::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

fs::path make_folder() {
  std::string name = (fs::temp_directory_path() / "runtime_ranks_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "mkdtemp " + name);
  }
  return name;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& added) {
  std::vector<std::string> result;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (added.count(text.substr(0, text.find('='))) == 0) result.push_back(text);
  }
  for (const auto& [name, value] : added) result.push_back(name + "=" + value);
  return result;
}

int status_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace

Job::Job(const JobOptions& options)
    : options_(options), deadline_(Clock::now() + options.limit), folder_(make_folder()) {
  const auto processes = static_cast<std::size_t>(options.launcher.empty() ? options.ranks : 1);
  ends_.resize(processes);
  for (std::size_t i = 0; i < processes; ++i) start(static_cast<int>(i));
}

Job::~Job() {
  kill_all();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

// All processes form one process group. They die with this process; a launcher gets SIGTERM then,
// so that it can end its ranks.
void Job::start(int process) {
  std::vector<std::string> words = options_.launcher;
  words.insert(words.end(), options_.command.begin(), options_.command.end());
  auto added = options_.environment;
  added[kStoreVariable] = (folder_ / "store").string();
  if (options_.launcher.empty()) {
    added[kRankVariable] = std::to_string(process);
    added[kRanksVariable] = std::to_string(options_.ranks);
  }
  std::vector<std::string> environment = environment_with(added);
  const std::string output = (folder_ / ("output" + std::to_string(process))).string();
  const std::vector<char*> argv = pointers(words), envp = pointers(environment);
  const int death_signal = options_.launcher.empty() ? SIGKILL : SIGTERM;
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) {
    ::setpgid(0, group_);
    ::prctl(PR_SET_PDEATHSIG, death_signal);
    const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execvpe(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::setpgid(pid, group_);  // called by parent and child, because either may run first
  if (group_ == 0) group_ = pid;
  running_.push_back(pid);
}

void Job::send_signal(int process, int signal) {
  const pid_t pid = running_.at(static_cast<std::size_t>(process));
  if (pid != 0) ::kill(pid, signal);
}

bool Job::has_ended(int process) {
  reap_all();
  return running_.at(static_cast<std::size_t>(process)) == 0;
}

bool Job::reap_all() {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    int wait_status = 0;
    if (running_[i] == 0 || ::waitpid(running_[i], &wait_status, WNOHANG) == 0) continue;
    running_[i] = 0;
    ends_[i].status = status_of(wait_status);
    ends_[i].output = output_of(static_cast<int>(i));
  }
  return std::all_of(running_.begin(), running_.end(), [](pid_t pid) { return pid == 0; });
}

// A launcher gets SIGTERM first, because it has to end its ranks, which have process groups of
// their own.
void Job::kill_all() {
  const auto give_up = Clock::now() + 3s;
  if (!options_.launcher.empty() && !reap_all()) {
    ::kill(-group_, SIGTERM);
    while (!reap_all() && Clock::now() < give_up) std::this_thread::sleep_for(5ms);
  }
  if (reap_all()) return;
  ::kill(-group_, SIGKILL);
  while (!reap_all()) std::this_thread::sleep_for(1ms);
}

const std::vector<ProcessEnd>& Job::wait() {
  while (!reap_all() && Clock::now() < deadline_) std::this_thread::sleep_for(2ms);
  const std::vector<pid_t> late = running_;
  kill_all();
  for (std::size_t i = 0; i < late.size(); ++i) {
    if (late[i] != 0) ends_[i].status = ProcessEnd::kNotEnded;
  }
  return ends_;
}

std::string Job::output_of(int process) const {
  std::ifstream file(folder_ / ("output" + std::to_string(process)));
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> expect_success(const JobOptions& options) {
  Job job(options);
  std::vector<std::string> outputs;
  for (const ProcessEnd& end : job.wait()) {
    const std::string who = options.launcher.empty() ? "rank " + std::to_string(outputs.size())
                                                     : options.launcher.front();
    outputs.push_back(end.output);
    if (end.status == 0) continue;
    ADD_FAILURE() << who
                  << (end.status == ProcessEnd::kNotEnded
                          ? " did not end in " + std::to_string(options.limit.count()) + " ms"
                          : " ended with " + std::to_string(end.status))
                  << "; its output:\n"
                  << end.output;
  }
  return outputs;
}

}  // namespace collectives::testing
