// Reads what Linux's control groups (versions 1 and 2) leave to this process.
#ifndef RUNTIME_SYSTEM_CONTROL_GROUPS_H_
#define RUNTIME_SYSTEM_CONTROL_GROUPS_H_

#include <cstdint>
#include <string>

namespace runtime::system {

// Where the kernel describes control groups. A test gives folders of its own.
struct GroupFiles {
  std::string groups = "/proc/self/cgroup";  // the groups of this process
  std::string root = "/sys/fs/cgroup";       // where their folders are mounted
};

// Returns the least number of bytes that the memory limits of the process's groups and of the
// groups above them leave. Files that the kernel can drop from its cache at once count as free.
// Returns UINT64_MAX if there is no limit.
uint64_t memory_left_in_groups(const GroupFiles& files = {});

// Returns the number of processors whose time the CPU quota of the process's groups and of those
// above them allows: the least quota / period, rounded down, and at least 1. Returns 0 if there is
// no quota.
int processors_in_groups(const GroupFiles& files = {});

// Returns the number of logical processors that this process can keep busy: those that it may run
// on (sched_getaffinity), or fewer if its groups have a CPU quota. At least 1. Any thread may call
// it.
int usable_processors();

}  // namespace runtime::system

#endif  // RUNTIME_SYSTEM_CONTROL_GROUPS_H_
