// Starts the agent with a question, and looks later what it has printed.
#include "tools/launch/left_out.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <string_view>
#include <utility>

#include "plugins/host/spawn.h"

namespace tools::launch {
namespace {

constexpr int kMostHalvings = 6;

// Its output can be read from `output`. Returns its number; -1 if the system refuses.
pid_t start_question(const std::vector<std::string>& words, plugins::host::Descriptor& output) {
  plugins::host::Pipe pipe = plugins::host::make_pipe();
  if (!pipe.read) return -1;
  plugins::host::Spawn what{words[0], words, {}};
  what.descriptors = {{pipe.write.get(), STDOUT_FILENO}, {pipe.write.get(), STDERR_FILENO}};
  what.isolated = true;
  const plugins::host::Spawned started = plugins::host::spawn(what);
  output = std::move(pipe.read);
  return started.error == 0 ? started.id : -1;
}

}  // namespace

// The version is the last line: an agent may have printed others.
bool Inquiry::says_version() {
  std::array<char, 4096> buffer;
  const ssize_t size = ::read(output_.get(), buffer.data(), buffer.size());
  if (size <= 0) return false;
  std::string_view text(buffer.data(), static_cast<size_t>(size));
  while (text.ends_with('\n')) text.remove_suffix(1);
  return text.substr(text.rfind('\n') + 1) == RUNTIME_VERSION;
}

void Inquiry::end() {
  if (process_ > 0 && ::waitpid(process_, nullptr, WNOHANG) == 0) {
    ::kill(-process_, SIGKILL);
    ::waitpid(process_, nullptr, WNOHANG);
  }
  process_ = -1;
  output_.close();
}

bool Inquiry::ask(std::vector<LeftOut>& machines, const WordsFor& words_for) {
  if (machines.empty()) return false;
  if (process_ > 0 && asked_ < machines.size()) {
    LeftOut& machine = machines[asked_++];
    machine.is_back = says_version();
    end();
    if (machine.is_back)
      std::cerr << machine.host.name
                << " can be used again: it is taken in after the next checkpoint\n";
    if (machine.is_back) return true;
  }
  asked_ %= machines.size();
  if (machines[asked_].skipped > 0) {
    --machines[asked_++].skipped;
  } else {
    process_ = start_question(words_for(machines[asked_].host), output_);
  }
  return false;
}

void add_left_out(std::vector<LeftOut>& machines, const Host& host) {
  machines.push_back({host, (1 << std::min(host.returns, kMostHalvings)) - 1});
}

void take_back(std::vector<LeftOut>& machines, std::vector<Host>& hosts) {
  for (const LeftOut& machine : machines) {
    if (!machine.is_back) continue;
    const auto next = std::find_if(hosts.begin(), hosts.end(), [&](const Host& host) {
      return host.place > machine.host.place;
    });
    const auto host = hosts.insert(next, machine.host);
    host->is_new = true;
    ++host->returns;
    std::cerr << machine.host.name << " is taken in: " << hosts.size() << " machines go on\n";
  }
  std::erase_if(machines, [](const LeftOut& machine) { return machine.is_back; });
}

}  // namespace tools::launch
