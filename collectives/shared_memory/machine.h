// The name of the machine that a process runs on.
#ifndef COLLECTIVES_SHARED_MEMORY_MACHINE_H_
#define COLLECTIVES_SHARED_MEMORY_MACHINE_H_

#include <cstdint>

namespace collectives::shared_memory {

// A number that is the same for processes that can see each other, made of the names of the
// machine's start and of this process's namespaces. 0: the system does not tell. Processes in
// different network namespaces count as on different machines, because whoever divides a machine so
// wants the network between them.
uint64_t machine();

}  // namespace collectives::shared_memory

#endif  // COLLECTIVES_SHARED_MEMORY_MACHINE_H_
