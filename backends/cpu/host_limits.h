// oneDNN ends the process with a null pointer where the system gives it no memory. This check comes
// first and reports an error instead.
#ifndef BACKENDS_CPU_HOST_LIMITS_H_
#define BACKENDS_CPU_HOST_LIMITS_H_

namespace backends::cpu {

// Throws Error (RT_ERROR_OUT_OF_MEMORY), with the limits in its text, if the process cannot get
// kHeadroom (192 MiB) more address space. Call it before kernels are made: while planning, and
// in the first launch of a plan, in which oneDNN generates the code of its matrix products.
// Takes a few microseconds.
void require_headroom();

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_HOST_LIMITS_H_
