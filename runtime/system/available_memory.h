// How much memory this process can still get, so that what is too large is refused with numbers
// before the kernel ends the process for it.
#ifndef RUNTIME_SYSTEM_AVAILABLE_MEMORY_H_
#define RUNTIME_SYSTEM_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <string>

namespace runtime::system {

// Bytes: the least of what the machine has free or can reclaim (MemAvailable), what the process's
// control group leaves of its limit, and what its limits for the address space (ulimit -v) and the
// data segment (ulimit -d) leave. UINT64_MAX where the kernel tells none of them. Any thread.
uint64_t available_memory();

// Throws DataError "<what> takes N MiB, but M MiB of memory are available; <remedy>" where `bytes`
// is more than that. Some of it is left to everything else. Small sizes are not looked at, which
// makes it cheap.
void require_memory(uint64_t bytes, const std::string& what, const std::string& remedy);

// "299 MiB of address space are in use, the limit is 300 MiB, and 8000 MiB of the machine's memory
// are free": for words about an allocation that has failed, hence without allocating.
void describe_memory(char (&text)[200]) noexcept;

}  // namespace runtime::system

#endif  // RUNTIME_SYSTEM_AVAILABLE_MEMORY_H_
