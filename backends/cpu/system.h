// Facts about this machine, as Linux reports them.
#ifndef BACKENDS_CPU_SYSTEM_H_
#define BACKENDS_CPU_SYSTEM_H_

#include <cstdint>
#include <string>

namespace backends::cpu {

int usable_cores();                // cores that this process may run on, by sched_getaffinity
std::string processor_name();      // "AMD EPYC 9B14"; "x86-64 processor" if unknown
std::string processor_identity();  // vendor, family, model, stepping and widest vectors
// Bytes of the machine's memory: installed, and available to new allocations.
struct SystemMemory {
  uint64_t total_bytes = 0, available_bytes = 0;
};
// Reads /proc/meminfo; 0 for a number that is missing there.
SystemMemory system_memory();

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_SYSTEM_H_
