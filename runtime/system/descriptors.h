// How many files, pipes and sockets this process may have open.
#ifndef RUNTIME_SYSTEM_DESCRIPTORS_H_
#define RUNTIME_SYSTEM_DESCRIPTORS_H_

#include <cstdint>
#include <string>

namespace runtime::system {

// Raises the soft limit for open files to the hard one; processes that are started later inherit
// it. It is no error if the system refuses. Call it before there are threads.
void raise_descriptor_limit() noexcept;

// Throws CommunicationError "<what> needs N open files beside the M that are open, but the limit is
// L
// ..." with the remedy, if fewer than `count` more can be opened. Any thread may call it.
void require_descriptors(uint64_t count, const std::string& what);

}  // namespace runtime::system

#endif  // RUNTIME_SYSTEM_DESCRIPTORS_H_
