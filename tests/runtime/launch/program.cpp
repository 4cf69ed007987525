// Starts the launcher as a program of its own, and watches its processes and output.
#include "tests/runtime/launch/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

namespace runtime::launch::test {

namespace {

namespace fs = std::filesystem;
constexpr const char* kMark = "LAUNCH_TEST_FOLDER";
using Clock = std::chrono::steady_clock;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool wait_until(const std::function<bool()>& condition, std::chrono::seconds limit) {
  const auto deadline = Clock::now() + limit;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void redirect(const fs::path& file, int to) {
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (fd < 0 || dup2(fd, to) < 0) _exit(126);
}

}  // namespace

Program::Program(const Words& words, const std::map<std::string, std::string>& variables,
                 Output output)
    : kind_(output) {
  std::string name = (fs::temp_directory_path() / "launch_test_XXXXXX").string();
  folder_ = mkdtemp(name.data());
  fs::create_directory(folder_ / "tmp");
  int ends[2] = {-1, -1};
  const bool pipe = output == Output::kUnreadPipe || output == Output::kBrokenPipe;
  if (pipe && pipe2(ends, O_CLOEXEC) != 0) return;
  if (output == Output::kBrokenPipe) close(ends[0]);
  pid_ = output == Output::kTerminal ? forkpty(&output_, nullptr, nullptr, nullptr) : fork();
  if (pid_ != 0) {
    if (output == Output::kTerminal) fcntl(output_, F_SETFL, O_NONBLOCK);
    if (output == Output::kUnreadPipe) output_ = ends[0];
    if (pipe) close(ends[1]);
    return;
  }
  if (chdir(folder_.c_str()) != 0) _exit(126);
  setenv(kMark, folder_.c_str(), 1);
  setenv("TMPDIR", (folder_ / "tmp").c_str(), 1);
  for (const auto& [key, value] : variables) setenv(key.c_str(), value.c_str(), 1);
  if (output == Output::kFile) redirect(folder_ / "out", STDOUT_FILENO);
  if (output == Output::kFullDisk) redirect("/dev/full", STDOUT_FILENO);
  if (pipe) dup2(ends[1], STDOUT_FILENO);
  redirect(folder_ / "err", STDERR_FILENO);
  std::vector<char*> arguments = {const_cast<char*>(LAUNCH_PROGRAM)};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(LAUNCH_PROGRAM, arguments.data());
  _exit(127);
}

Program::~Program() {
  for (const pid_t process : processes()) kill(process, SIGKILL);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  if (output_ >= 0) close(output_);
  fs::remove_all(folder_);
}

std::string Program::out() const {
  if (kind_ != Output::kTerminal) return read_file(folder_ / "out");
  char buffer[4096];
  for (ssize_t bytes = 0; (bytes = read(output_, buffer, sizeof(buffer))) > 0;)
    shown_.append(buffer, static_cast<size_t>(bytes));
  return shown_;
}

std::string Program::err() const { return read_file(folder_ / "err"); }

void Program::wait_for(const std::string& text, int times) const {
  const auto there = [&] {
    return count(out(), text) + count(err(), text) >= static_cast<size_t>(times);
  };
  EXPECT_TRUE(wait_until(there, std::chrono::seconds(20))) << "'" << text << "' did not come\n"
                                                           << out() << err();
}

void Program::make_file(const std::string& name) const { std::ofstream(folder_ / name) << name; }

void Program::send(int signal) const { kill(pid_, signal); }

void Program::type(const std::string& keys) const {
  EXPECT_EQ(write(output_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
}

int Program::wait(std::chrono::seconds limit) {
  int status = 0;
  const auto ended = [&] {
    out();  // a terminal that is not read would stop the program
    return waitpid(pid_, &status, WNOHANG) == pid_;
  };
  if (!wait_until(ended, limit)) {
    ADD_FAILURE() << "still runs after " << limit.count() << " s\n" << out() << err();
    return -1;
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<pid_t> Program::processes() const {
  const std::string mark = kMark + ("=" + folder_.string());
  std::vector<pid_t> list;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t process = std::atoi(entry.path().filename().c_str());
    if (process > 0 && read_file(entry.path() / "environ").find(mark) != std::string::npos)
      list.push_back(process);  // the environment of a zombie is empty
  }
  return list;
}

bool Program::all_gone(std::chrono::seconds limit) const {
  return wait_until([&] { return processes().empty(); }, limit);
}

std::vector<std::string> Program::left_files() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_ / "tmp"))
    names.push_back(entry.path().filename().string());
  return names;
}

size_t count(const std::string& text, const std::string& part) {
  size_t times = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++times;
  return times;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace runtime::launch::test
