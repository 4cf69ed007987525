// Runs the program in a folder, waits for texts of its output, and sends it signals.
#include "tests/runtime/support/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "tests/runtime/support/devices.h"

namespace runtime::test {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPoll = std::chrono::milliseconds(5);

std::vector<std::string> environment_of(const std::filesystem::path& folder,
                                        const std::map<std::string, std::string>& changes) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    all[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  all.erase("RUNTIME_PLUGIN_PATH");
  all["XDG_CACHE_HOME"] = (folder / "cache").string();
  all["HOME"] = folder.string();
  for (const auto& [key, value] : changes) all[key] = value;
  std::vector<std::string> list;
  for (const auto& [key, value] : all) list.push_back(key + "=" + value);
  return list;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& t : texts) list.push_back(t.data());
  list.push_back(nullptr);
  return list;
}

void redirect(const std::filesystem::path& file, int to) {
  const int from = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (from < 0 || dup2(from, to) < 0) _exit(126);
}

}  // namespace

RuntimeProcess::RuntimeProcess(const std::filesystem::path& folder,
                               const std::vector<std::string>& arguments,
                               const std::map<std::string, std::string>& environment,
                               const std::function<void()>& before) {
  static std::atomic<int> count = 0;
  const std::string number = std::to_string(count++);
  out_ = folder / (".stdout" + number);
  err_ = folder / (".stderr" + number);
  std::vector<std::string> words = {RUNTIME_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = environment_of(folder, environment);
  const std::vector<char*> argv = pointers(words), envp = pointers(variables);
  id_ = fork();
  if (id_ == 0) {
    if (chdir(folder.c_str()) != 0) _exit(126);
    redirect("/dev/null", STDIN_FILENO);
    redirect(out_, STDOUT_FILENO);
    redirect(err_, STDERR_FILENO);
    if (before) before();
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
}

RuntimeProcess::~RuntimeProcess() {
  if (id_ <= 0 || ended(WNOHANG)) return;
  kill(id_, SIGKILL);
  ended(0);
}

bool RuntimeProcess::ended(int options) {
  if (!reaped_) reaped_ = waitpid(id_, &status_, options) == id_;
  return reaped_;
}

bool RuntimeProcess::wait_for_text(const std::string& text, std::chrono::seconds limit) {
  const auto deadline = Clock::now() + limit;
  while (Clock::now() < deadline) {
    const bool over = ended(WNOHANG);
    if (read_text(out_).find(text) != std::string::npos ||
        read_text(err_).find(text) != std::string::npos)
      return true;
    if (over) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return false;
}

void RuntimeProcess::send(int signal) const { kill(id_, signal); }

ProcessResult RuntimeProcess::wait(std::chrono::seconds limit) {
  const auto deadline = Clock::now() + limit;
  while (!ended(WNOHANG)) {
    if (Clock::now() > deadline) {
      ADD_FAILURE() << "the program still runs after " << limit.count() << " s";
      kill(id_, SIGKILL);
      ended(0);
    } else {
      std::this_thread::sleep_for(kPoll);
    }
  }
  ProcessResult result;
  result.exit_code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  result.out = read_text(out_);
  result.err = read_text(err_);
  std::filesystem::remove(out_);
  std::filesystem::remove(err_);
  return result;
}

ProcessResult run_runtime(const std::filesystem::path& folder,
                          const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& environment) {
  return RuntimeProcess(folder, arguments, environment).wait();
}

}  // namespace runtime::test
