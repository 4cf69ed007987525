// launch_program processes|mpi RANKS MAX_RESTARTS ACTION...
//   starts RANKS ranks of this program; its exit code is that of the launcher.
// launch_program elastic RANKS MAX_RESTARTS MIN_RANKS ACTION...
//   the same with Elastic::min_ranks. A rank whose slot was left out is back after 50 ms if there
//   is a file "back" in the working folder.
// launch_program rank ACTION...
//   runs one rank. An action is WORD, WORD=VALUE or RANK:WORD=VALUE, the last for this rank only.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/error.h"
#include "runtime/launch/cores.h"
#include "runtime/launch/environment.h"
#include "runtime/launch/processes.h"
#include "runtime/launch/rendezvous_folder.h"
#include "runtime/train/run/stop_signal.h"

namespace {

using runtime::launch::RankEnvironment;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

std::string numbered(size_t i, size_t length) {
  return std::to_string(i) + std::string(length, static_cast<char>('a' + i % 26)) + "\n";
}

// Writes in chunks that do not end at the ends of lines.
void write_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += numbered(static_cast<size_t>(i), 90);
  for (size_t at = 0; at < text.size();) {
    const ssize_t bytes =
        write(STDOUT_FILENO, text.data() + at, std::min<size_t>(777, text.size() - at));
    if (bytes > 0) at += static_cast<size_t>(bytes);
  }
}

// Behaves as a training: "saves" for VALUE ms after the first signal; a second signal would kill
// it. SIGUSR1 ends it at its next "checkpoint".
void train_until_stopped(int save_ms) {
  runtime::train::StopSignal stop;
  std::cout << "training" << std::endl;
  while (stop.pending() == 0 && !stop.after_checkpoint()) sleep_ms(2);
  sleep_ms(save_ms);
  if (stop.pending() == 0) std::_Exit(128 + SIGUSR1);
  std::cerr << "saved" << std::endl;
  std::_Exit(128 + stop.pending());
}

// Does what rank 0 of a job does once all ranks have met.
void save_something() {
  namespace launch = runtime::launch;
  const launch::SavingLock lock(getenv(launch::kJobFolderVariable));
}

void start_child() {
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    sleep_ms(50'000);
    std::_Exit(0);
  }
  std::cerr << "child " << child << std::endl;
}

// Fails until the working folder has VALUE files.
void fail_until(int times, int exit_code) {
  for (int i = 0; i < times; ++i) {
    const std::string file = "failed" + std::to_string(i);
    if (std::ifstream(file).good()) continue;
    std::ofstream(file) << getenv(runtime::launch::kRendezvousVariable);
    std::_Exit(exit_code);
  }
}

void show(const RankEnvironment& e) {
  const char* rendezvous = getenv(runtime::launch::kRendezvousVariable);
  const auto share = runtime::launch::share_of(e);
  std::ostringstream text;  // a single write, because the ranks of an mpiexec share standard output
  text << "rank " << e.rank << " of " << e.world_size << ", local " << e.local_rank << " of "
       << e.local_size << ", " << share.threads << " threads, pid " << getpid() << ", group "
       << getpgrp() << ", rendezvous " << (rendezvous == nullptr ? "none" : rendezvous) << "\n";
  std::cerr << text.str();
}

void act(const RankEnvironment& environment, const std::string& word, const std::string& value) {
  const int number = std::atoi(value.c_str());
  const std::map<std::string, std::function<void()>> actions = {
      {"show", [&] { show(environment); }},
      {"out", [&] { std::cout << value << std::endl; }},
      {"err", [&] { std::cerr << value << std::endl; }},
      {"partial", [&] { std::cout << value << std::flush; }},
      {"long", [&] { std::cout << std::string(static_cast<size_t>(number), 'x') << std::endl; }},
      {"lines", [&] { write_lines(number); }},
      {"terminal", [&] { std::cout << (isatty(1) ? "a terminal" : "no terminal") << std::endl; }},
      {"sleep", [&] { sleep_ms(number); }},
      {"exit", [&] { std::exit(number); }},
      {"raise", [&] { raise(number); }},
      {"ignore", [&] { signal(number, SIG_IGN); }},
      {"train", [&] { train_until_stopped(number); }},
      {"save", [] { save_something(); }},
      {"child", [] { start_child(); }},
      {"fail_once", [&] { fail_until(1, number); }},
      {"fail_twice", [&] { fail_until(2, number); }},
      {"with_parent", [] { runtime::launch::end_with_parent(); }},
  };
  actions.at(word)();
}

int run_rank(const std::vector<std::string>& actions) {
  const RankEnvironment environment = runtime::launch::detect();
  for (std::string action : actions) {
    if (const size_t colon = action.find(':'); colon != std::string::npos) {
      if (std::atoi(action.c_str()) != environment.rank) continue;
      action = action.substr(colon + 1);
    }
    const size_t equal = action.find('=');
    act(environment, action.substr(0, equal),
        equal == std::string::npos ? "" : action.substr(equal + 1));
  }
  return 0;
}

runtime::launch::Elastic elastic_with(int min_ranks) {
  runtime::launch::Elastic elastic;
  elastic.min_ranks = min_ranks;
  elastic.arguments = [](const std::vector<int>& slots) {
    std::string text;
    for (const int slot : slots) text += " " + std::to_string(slot);
    return std::vector<std::string>{"0:err=slots" + text};
  };
  elastic.rejoin = std::chrono::milliseconds(50);
  elastic.is_back = [](int) { return std::ifstream("back").good(); };
  return elastic;
}

int run_launcher(const std::string& kind, std::vector<std::string> words) {
  runtime::launch::LaunchOptions options;
  options.ranks = std::atoi(words.at(0).c_str());
  options.max_restarts = std::atoi(words.at(1).c_str());
  options.patience = std::chrono::seconds(1);
  options.ending_limit = std::chrono::seconds(8);
  if (kind == "elastic") {
    options.elastic = elastic_with(std::atoi(words.at(2).c_str()));
    words.erase(words.begin() + 2);
  }
  options.arguments = {"rank"};
  options.arguments.insert(options.arguments.end(), words.begin() + 2, words.end());
  if (kind != "mpi") return runtime::launch::launch_processes(options);
  if (const char* mpiexec = getenv("TEST_MPIEXEC")) options.mpiexec = mpiexec;
  return runtime::launch::launch_mpi(options);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 2, argv + argc);
  try {
    return std::strcmp(argv[1], "rank") == 0 ? run_rank(words) : run_launcher(argv[1], words);
  } catch (const runtime::Error& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return static_cast<int>(e.exit_code());
  }
}
