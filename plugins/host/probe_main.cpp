// plugin_probe: examines one plugin and writes its description to file descriptor 3. probe.cpp
// starts one such process for each plugin.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "plugins/host/answer.h"
#include "plugins/host/child.h"
#include "plugins/host/description.h"
#include "plugins/host/error.h"

namespace {

using plugins::host::Frame;

constexpr int kArguments = 9;

void write_frame(Frame kind, std::string_view payload) {
  const std::string frame = plugins::host::make_frame(kind, payload);
  std::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t wrote = ::write(plugins::host::kAnswerDescriptor, rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) ::_exit(1);  // the parent reads no more
    rest.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

// Turns off core files: the parent reports a crash of the plugin, and writing the memory of this
// process to a file would only take time. Makes the kernel kill this process when the parent ends,
// however it ends.
void prepare(pid_t parent) {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
}

plugins::host::CheckedFile file_of(char** words) {
  const auto number = [&](int i) { return std::strtoull(words[i], nullptr, 10); };
  return {
      words[1], words[2], {number(3), number(4), number(5), std::strtoll(words[6], nullptr, 10)}};
}

// Writes warnings and errors of the plugin to standard error; the parent keeps the end of it.
plugins::host::HostServices services() {
  plugins::host::HostServices services;
  services.log = [](int32_t level, const std::string&, const std::string& text) {
    if (level >= RT_LOG_WARNING) std::fprintf(stderr, "%s\n", text.c_str());
  };
  return services;
}

void look_at(const plugins::host::CheckedFile& file, bool states) {
  const auto begin = [](const char* step) { write_frame(Frame::kStep, step); };
  std::shared_ptr<plugins::host::Plugin> plugin;  // outlives the answer
  try {
    plugin = plugins::host::Plugin::load(file, services(), begin);
    const auto description = plugins::host::describe(plugin, states, begin);
    write_frame(Frame::kDescription, plugins::host::encode(description));
  } catch (const std::exception& error) {
    write_frame(Frame::kRefusal, error.what());
  }
  ::_exit(0);  // without shutdown: ending the process cleans up faster and cannot hang
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != kArguments || ::fcntl(plugins::host::kAnswerDescriptor, F_GETFD) < 0) {
    std::fprintf(
        stderr, "The runtime starts this program to look at plugins; try `runtime plugins list`\n");
    return 2;
  }
  prepare(static_cast<pid_t>(std::atoi(argv[7])));
  write_frame(Frame::kHello, plugins::host::encoding_version());
  look_at(file_of(argv), argv[8] == std::string_view("1"));
}
