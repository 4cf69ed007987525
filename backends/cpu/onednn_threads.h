// Whether oneDNN computes with the threads of the device's team; see team/openmp.cpp.
#ifndef BACKENDS_CPU_ONEDNN_THREADS_H_
#define BACKENDS_CPU_ONEDNN_THREADS_H_

namespace backends::cpu {

// Throws rt::sdk::Error (RT_ERROR_UNAVAILABLE), with the name, if this process's oneDNN calls a
// function of OpenMP that team/openmp.cpp does not have. A part of its loops would then be run by
// all threads instead of one.
void require_known_openmp();

// If this process had another OpenMP library before the plugin was loaded (a program that uses
// OpenMP itself), oneDNN computes with that one's threads. This sets their number for the calling
// thread. Does nothing elsewhere.
void limit_other_openmp(int threads);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_ONEDNN_THREADS_H_
