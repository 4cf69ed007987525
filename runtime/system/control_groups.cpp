// Finds this process's groups and reads memory and processor limits up to the root.
#include "runtime/system/control_groups.h"

#include <pthread.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <thread>

namespace runtime::system {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// The files of one controller in a group's folder. Version 1 has a tree for each controller, and a
// memory.stat whose sums over the groups below begin with "total_".
struct Names {
  const char* controller;  // "": version 2
  const char* memory_limit;
  const char* memory_used;
  const char* memory_cache;
  const char* quota;
  const char* period;  // "": the second word of `quota`
};
constexpr Names kVersions[] = {
    {"", "memory.max", "memory.current", "inactive_file", "cpu.max", ""},
    {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "", ""},
    {"cpu", "", "", "", "cpu.cfs_quota_us", "cpu.cfs_period_us"},
};

using Visit = std::function<void(const Names&, const std::string& folder)>;

// Visits a group's folder and those above it. A container may see only the root of the tree,
// whatever path the kernel reports.
void visit_upwards(const Names& names, const std::string& root, std::string path,
                   const Visit& visit) {
  for (;; path.resize(path.rfind('/'))) {
    visit(names, root + path);
    if (path.find('/') == std::string::npos) return;
  }
}

bool in_list(const std::string& list, const std::string& name) {
  return ("," + list + ",").find("," + name + ",") != std::string::npos;
}

// Reads lines such as "4:cpu,cpuacct:/pod", or "0::/pod" of version 2. Distributions mount version
// 1 below the list of controllers or below each one's name, and version 2 at the root or beside
// them.
void visit_groups(const GroupFiles& files, const Visit& visit) {
  std::ifstream groups(files.groups);
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string list = line.substr(first + 1, second - first - 1);
    for (const Names& names : kVersions) {
      const bool second_version = *names.controller == '\0';
      if (second_version ? !list.empty() : !in_list(list, names.controller)) continue;
      for (const std::string& mount :
           {second_version ? std::string() : "/" + list,
            "/" + std::string(second_version ? "unified" : names.controller)})
        visit_upwards(names, files.root + mount, line.substr(second + 1), visit);
    }
  }
}

// Returns nothing for "max", or if the file does not exist.
std::optional<int64_t> number_in(const std::string& file) {
  int64_t number = 0;
  return std::ifstream(file) >> number ? std::optional<int64_t>(number) : std::nullopt;
}

int64_t cache_of(const Names& names, const std::string& folder) {
  std::ifstream stat(folder + "/memory.stat");
  std::string key;
  for (int64_t bytes = 0; stat >> key >> bytes;)
    if (key == names.memory_cache) return bytes;
  return 0;
}

// Returns processors, as a fraction.
std::optional<double> quota_in(const Names& names, const std::string& folder) {
  std::ifstream file(folder + "/" + names.quota);
  double quota = 0, period = 0;
  if (!(file >> quota)) return std::nullopt;
  std::ifstream second(folder + "/" + names.period);
  if (!((*names.period != '\0' ? second : file) >> period)) return std::nullopt;
  return quota > 0 && period > 0 ? std::optional<double>(quota / period) : std::nullopt;
}

}  // namespace

uint64_t memory_left_in_groups(const GroupFiles& files) {
  uint64_t least = kNoLimit;
  visit_groups(files, [&](const Names& names, const std::string& folder) {
    if (*names.memory_limit == '\0') return;
    const auto limit = number_in(folder + "/" + names.memory_limit);
    const auto used = number_in(folder + "/" + names.memory_used);
    if (!limit || !used) return;
    const int64_t needed = std::max<int64_t>(0, *used - cache_of(names, folder));
    least = std::min(least, static_cast<uint64_t>(std::max<int64_t>(0, *limit - needed)));
  });
  return least;
}

int processors_in_groups(const GroupFiles& files) {
  double least = std::numeric_limits<int>::max();
  visit_groups(files, [&](const Names& names, const std::string& folder) {
    if (*names.quota == '\0') return;
    if (const auto processors = quota_in(names, folder)) least = std::min(least, *processors);
  });
  return least < std::numeric_limits<int>::max() ? std::max(1, static_cast<int>(least)) : 0;
}

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int processors = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof(set), &set) == 0) processors = CPU_COUNT(&set);
  const int quota = processors_in_groups();
  return std::max(1, quota > 0 ? std::min(quota, processors) : processors);
}

}  // namespace runtime::system
