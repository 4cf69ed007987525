// What oneDNN and libgomp take for granted: they end the process, one with a null pointer, the
// other with exit(1), where the system gives them no memory or no thread. So we look first.
#ifndef BACKENDS_CPU_HOST_LIMITS_H_
#define BACKENDS_CPU_HOST_LIMITS_H_

namespace backends::cpu {

// Throws Error (RT_ERROR_OUT_OF_MEMORY) with numbers where the process cannot get kHeadroom more
// address space. For what makes kernels: planning, and the first launch of a plan, in which oneDNN
// generates the code of its matrix products. A few microseconds.
void require_headroom();

// Makes the OpenMP threads of the calling thread, which keeps them for all later regions with as
// many threads. Throws Error (RT_ERROR_OUT_OF_MEMORY) with numbers where the system does not give
// them. Costs nothing when they are there.
void make_team(int threads);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_HOST_LIMITS_H_
