// Whether oneDNN computes with the threads of the device's team; see onednn_openmp.cpp.
#ifndef BACKENDS_CPU_ONEDNN_THREADS_H_
#define BACKENDS_CPU_ONEDNN_THREADS_H_

namespace backends::cpu {

// Whether the oneDNN of this process calls no function of OpenMP but those of onednn_openmp.cpp.
// Any other function would not know that it is called in a region of the team.
bool team_serves_onednn();

// Sets the number of threads of oneDNN's loops in the calling thread. They are those of its team,
// or those of another OpenMP library: if the team does not serve oneDNN, or if this process had
// that library before the plugin was loaded (a program that uses OpenMP itself).
void set_onednn_threads(int threads);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_ONEDNN_THREADS_H_
