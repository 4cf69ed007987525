// oneDNN ends the process with a null pointer, and libgomp with exit(1), where the system gives
// them no memory or no thread. These checks come first and report an error instead.
#ifndef BACKENDS_CPU_HOST_LIMITS_H_
#define BACKENDS_CPU_HOST_LIMITS_H_

namespace backends::cpu {

// Throws Error (RT_ERROR_OUT_OF_MEMORY), with the limits in its text, if the process cannot get
// kHeadroom (32 MiB) more address space. Call it before kernels are made: while planning, and
// in the first launch of a plan, in which oneDNN generates the code of its matrix products.
// Takes a few microseconds.
void require_headroom();

// Starts the OpenMP threads of the calling thread, which keeps them for all later regions with the
// same number of threads. Throws Error (RT_ERROR_OUT_OF_MEMORY), with the limits in its text, if
// the system does not give them. Costs nothing once they exist.
void make_team(int threads);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_HOST_LIMITS_H_
