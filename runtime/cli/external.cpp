// Searches programs called runtime-NAME, asks them for their help, and becomes one of them.
#include "runtime/cli/external.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <system_error>

#include "plugins/host/program.h"
#include "runtime/error.h"
#include "runtime/launch/child.h"

namespace runtime::cli {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kPrefix = "runtime-";

bool is_program(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

void add_folder(const fs::path& folder, bool own, std::map<std::string, ExternalCommand>& found) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    if (!file.starts_with(kPrefix) || !is_program(it->path())) continue;
    const std::string name = file.substr(kPrefix.size());
    found.emplace(name, ExternalCommand{name, it->path(), own});
  }
}

// What a process prints until it ends or `limit` has passed.
std::string output_until(const launch::Child& child, Clock::time_point limit) {
  std::string text;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now()).count();
    pollfd wait{child.out.get(), POLLIN, 0};
    if (left <= 0 || poll(&wait, 1, static_cast<int>(left)) == 0) return text;
    char buffer[4096];
    const ssize_t bytes = read(child.out.get(), buffer, sizeof(buffer));
    if (bytes == 0 || (bytes < 0 && errno != EAGAIN && errno != EINTR)) return text;
    if (bytes > 0) text.append(buffer, static_cast<size_t>(bytes));
  }
}

struct Folder {
  fs::path path;
  bool own = false;  // see ExternalCommand
};

// The folders that are searched, in their order. A relative folder of PATH would make the command
// depend on where the program was started.
std::vector<Folder> folders_of_programs() {
  std::vector<Folder> list;
  const fs::path here = plugins::host::program_path().parent_path();
  if (!here.empty())
    list = {{here, true}, {(here / "../libexec/runtime").lexically_normal(), true}};
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (folder.starts_with('/')) list.push_back({folder, false});
  return list;
}

}  // namespace

std::string help_of(const ExternalCommand& command, const std::string& sub, int seconds) {
  launch::ChildSpec spec;
  spec.name = spec.program = command.program.string();
  spec.arguments = {spec.program, "--help"};
  if (!sub.empty()) spec.arguments.insert(spec.arguments.begin() + 1, sub);
  const launch::Child child = launch::start(spec);
  std::string text = output_until(child, Clock::now() + std::chrono::seconds(seconds));
  kill(-child.pid, SIGKILL);
  while (waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return text;
}

std::optional<ExternalCommand> find_command(const std::string& name) {
  if (name.find('/') != std::string::npos) return std::nullopt;
  for (const Folder& folder : folders_of_programs()) {
    fs::path file = folder.path / (std::string(kPrefix) + name);
    if (is_program(file)) return ExternalCommand{name, std::move(file), folder.own};
  }
  return std::nullopt;
}

std::vector<ExternalCommand> external_commands() {
  std::map<std::string, ExternalCommand> found;
  for (const Folder& folder : folders_of_programs()) add_folder(folder.path, folder.own, found);
  std::vector<ExternalCommand> list;
  for (auto& [name, command] : found) list.push_back(std::move(command));
  return list;
}

std::string description_of(const ExternalCommand& command) {
  if (!command.own) return command.program.string();
  try {
    std::istringstream lines(help_of(command, "", 2));
    std::string line;
    while (std::getline(lines, line) && line.empty()) {
    }
    return line;
  } catch (const Error& error) {  // a program that cannot be started is still listed
    return error.what();
  }
}

void become(const ExternalCommand& command, char** arguments) {
  const std::string program = command.program.string();
  std::string name = program;
  std::vector<char*> list = {name.data()};
  for (; *arguments != nullptr; ++arguments) list.push_back(*arguments);
  list.push_back(nullptr);
  std::signal(SIGPIPE, SIG_DFL);  // main() ignores it, and exec would pass that on
  execv(program.c_str(), list.data());
  throw ConfigurationError("cannot start " + program + ", the program of the command '" +
                           command.name + "': " + std::strerror(errno) +
                           "; install it again, or remove it");
}

std::string list_of(const std::vector<ExternalCommand>& commands) {
  if (commands.empty()) return "";
  std::string text = "Commands that are programs of their own:\n";
  for (const ExternalCommand& command : commands)
    text += fmt::format("  {:<27} {}\n", command.name, description_of(command));
  return text + "\n";
}

}  // namespace runtime::cli
