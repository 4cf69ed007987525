// How much memory this process can still get, so that a request that is too large is refused with
// numbers before the kernel kills the process.
#ifndef RUNTIME_SYSTEM_AVAILABLE_MEMORY_H_
#define RUNTIME_SYSTEM_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <string>

namespace runtime::system {

// Returns the bytes that this process can still get: the least of what the machine has free or can
// reclaim (MemAvailable), what the limits of the process's control groups leave (version 1 or 2),
// and what its limits for the address space (ulimit -v) and the data segment (ulimit -d) leave.
// Returns UINT64_MAX if the kernel reports none of them. Any thread may call it.
uint64_t available_memory();

// Throws DataError "<what> takes N MiB, but M MiB of memory are available; <remedy>" if `bytes` is
// more than 15/16 of the available memory. Small sizes are not checked, which makes the call cheap.
void require_memory(uint64_t bytes, const std::string& what, const std::string& remedy);

// Returns "1.50 MiB".
std::string mib(uint64_t bytes);

// Writes, for example, "299 MiB of address space are in use, the limit is 300 MiB, and 8000 MiB of
// the machine's memory are free" without allocating, for the message about an allocation that has
// failed.
void describe_memory(char (&text)[200]) noexcept;

}  // namespace runtime::system

#endif  // RUNTIME_SYSTEM_AVAILABLE_MEMORY_H_
