// Starts the agent with a question, and looks later what it has printed.
#include "tools/launch/left_out.h"

#include <algorithm>
#include <chrono>
#include <iostream>

#include "plugins/host/error.h"

namespace tools::launch {

bool Inquiry::ask(std::vector<LeftOut>& machines, const WordsFor& words_for) {
  if (question_) {
    question_->read_output();
    const bool yes = question_->last_words() == RUNTIME_VERSION && asked_ < machines.size();
    question_.reset();
    if (yes) {
      machines[asked_].is_back = true;
      std::cerr << machines[asked_].host.name
                << " can be used again: it is taken in after the next checkpoint\n";
      return true;
    }
    ++asked_;
  }
  if (machines.empty()) return false;
  asked_ %= machines.size();
  const std::vector<std::string> words = words_for(machines[asked_].host);
  try {  // the deadline is for those who wait for an answer
    question_.emplace(words[0], std::vector<std::string>(words.begin() + 1, words.end()),
                      plugins::host::Child::Clock::time_point::max());
  } catch (const plugins::host::Error&) {  // there are too many processes now
  }
  return false;
}

void take_back(std::vector<LeftOut>& machines, std::vector<Host>& hosts) {
  for (const LeftOut& machine : machines) {
    if (!machine.is_back) continue;
    const size_t place = std::min(machine.place, hosts.size());
    hosts.insert(hosts.begin() + static_cast<std::ptrdiff_t>(place), machine.host)->is_new = true;
    std::cerr << machine.host.name << " is taken in: " << hosts.size() << " machines go on\n";
  }
  std::erase_if(machines, [](const LeftOut& machine) { return machine.is_back; });
}

}  // namespace tools::launch
