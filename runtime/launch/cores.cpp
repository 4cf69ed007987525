// Reads the topology and the binding of the launcher, and divides cores among ranks.
#include "runtime/launch/cores.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>

#include "runtime/launch/process_tree.h"
#include "runtime/system/control_groups.h"

namespace runtime::launch {

namespace {

// On a machine with more than CPU_SETSIZE (1024) logical processors, the others are not used.
std::vector<int> processors_of(pid_t process) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> list;
  if (sched_getaffinity(process, sizeof(set), &set) != 0) return list;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) list.push_back(i);
  return list;
}

// Returns the hardware threads of the core that a processor belongs to, "0,32", or the processor's
// own number if the system does not report them.
std::string siblings(int processor) {
  const std::string number = std::to_string(processor);
  std::ifstream file("/sys/devices/system/cpu/cpu" + number + "/topology/thread_siblings_list");
  std::string list;
  return std::getline(file, list) ? list : number;
}

// Launchers that bind put each rank into a process group of its own. A parent in the same group is
// therefore a script around this program, not the launcher.
pid_t launcher_of_this_process() {
  pid_t process = getppid();
  while (process > 1 && getpgid(process) == getpgrp()) process = parent_of(process);
  return process;
}

int count(const Cores& cores, size_t begin, size_t end) {
  size_t sum = 0;
  for (size_t i = begin; i < end; ++i) sum += cores[i].size();
  return static_cast<int>(sum);
}

CoreShare share_of_processors(const RankEnvironment& rank) {
  const Cores cores = allowed_cores();
  if (rank.launcher_binds) {
    const int processors = static_cast<int>(processors_of(launcher_of_this_process()).size());
    if (count(cores, 0, cores.size()) < processors)
      return share_of_bound(cores, processors, rank.local_size);
  }
  return share_of(cores, rank.local_rank, rank.local_size);
}

}  // namespace

Cores allowed_cores() {
  std::map<std::string, size_t> index;  // siblings -> index into `cores`
  Cores cores;
  for (const int processor : processors_of(0)) {
    const auto [place, is_new] = index.emplace(siblings(processor), cores.size());
    if (is_new) cores.emplace_back();
    cores[place->second].push_back(processor);
  }
  return cores;
}

CoreShare share_of(const Cores& cores, int local_rank, int local_size) {
  const size_t ranks = static_cast<size_t>(local_size), each = cores.size() / ranks;
  CoreShare share;
  if (each == 0) return share;
  const auto begin = [&](size_t rank) { return rank * cores.size() / ranks; };
  const size_t own = static_cast<size_t>(local_rank);
  for (size_t i = begin(own); i < begin(own + 1); ++i)
    share.processors.insert(share.processors.end(), cores[i].begin(), cores[i].end());
  share.threads = count(cores, 0, each);
  for (size_t rank = 1; rank < ranks; ++rank)
    share.threads = std::min(share.threads, count(cores, begin(rank), begin(rank) + each));
  return share;
}

CoreShare share_of_bound(const Cores& cores, int launcher_processors, int local_size) {
  const int own = count(cores, 0, cores.size());
  const int ranks_here = (local_size * own + launcher_processors - 1) / launcher_processors;
  CoreShare share = share_of(cores, 0, std::max(ranks_here, 1));
  share.processors.clear();
  return share;
}

int within_quota(int threads, int ranks, int quota) {
  return quota > 0 ? std::min(threads, std::max(1, quota / ranks)) : threads;
}

int threads_of(int ranks) {
  return within_quota(share_of(allowed_cores(), 0, ranks).threads, ranks,
                      system::processors_in_groups());
}

// Ranks of an outer launcher may be in control groups of their own. The quota is then divided among
// more ranks than it serves, which costs speed and is not seen from here.
CoreShare share_of(const RankEnvironment& rank) {
  CoreShare share = share_of_processors(rank);
  share.threads = within_quota(share.threads, rank.local_size, system::processors_in_groups());
  return share;
}

void apply(const CoreShare& share) {
  if (share.processors.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : share.processors) CPU_SET(processor, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

}  // namespace runtime::launch
