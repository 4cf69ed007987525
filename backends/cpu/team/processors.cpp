// Reads from the system which processors there are.
#include "backends/cpu/team/processors.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <tuple>

namespace backends::cpu {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(int processor) {
  return "/sys/devices/system/cpu/cpu" + std::to_string(processor);
}

// The folder of a processor has a link "node3" to its node.
int node_of(int processor) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_of(processor), error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("node") && name.size() > 4 && std::isdigit(name[4]) != 0)
      return std::atoi(name.c_str() + 4);
  }
  return 0;
}

// Counts the processors of the same core with a smaller number; the system writes "0,32" or "0-1".
int sibling_of(int processor) {
  std::ifstream file(folder_of(processor) / "topology/thread_siblings_list");
  int count = 0, begin = 0;
  while (file >> begin) {
    int end = begin;
    if (file.peek() == '-') file.ignore() >> end;
    count += std::clamp(processor - begin, 0, end - begin + 1);
    file.ignore();  // the comma
  }
  return count;
}

}  // namespace

void sort_for_threads(std::vector<Processor>& processors) {
  std::sort(processors.begin(), processors.end(), [](const Processor& a, const Processor& b) {
    return std::tie(a.node, a.sibling, a.number) < std::tie(b.node, b.sibling, b.number);
  });
}

std::vector<Processor> processors_of_this_thread() {
  std::vector<Processor> processors;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return processors;
  for (int number = 0; number < CPU_SETSIZE; ++number) {
    if (CPU_ISSET(number, &set))
      processors.push_back({number, node_of(number), sibling_of(number)});
  }
  sort_for_threads(processors);
  return processors;
}

void pin_to(const Processor& processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor.number, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace backends::cpu
