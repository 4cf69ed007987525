// MPI in this process. The first communicator starts it, and it ends with the last plugin instance
// that used it.
#ifndef COLLECTIVES_MPI_PROCESS_H_
#define COLLECTIVES_MPI_PROCESS_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "progress_thread.h"

namespace collectives::mpi {

// How to start MPI. Only the settings of the first caller are used.
struct Start {
  std::string interface;               // network interface; "": MPI chooses
  std::chrono::seconds finalize{600};  // time that MPI_Finalize may wait for the other ranks
};

// Thread-safe.
class Process {
 public:
  // Returns the object of this process, and waits until MPI has started on all ranks. Throws
  // RT_ERROR_TIMEOUT, or RT_ERROR_UNAVAILABLE if MPI has ended already: it can start only once in a
  // process.
  static std::shared_ptr<Process> join(const Start& start, Clock::time_point deadline);
  explicit Process(const Start& start);
  // Finalizes MPI if all communicators were closed in order. Otherwise leaves MPI as it is, so that
  // the end of the process after an error waits for no rank; mpiexec then ends the other ranks.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  ProgressThread& world() { return *world_; }
  // Notes that a communicator was not closed in order.
  void give_up() { orderly_ = false; }

 private:
  std::shared_ptr<ProgressThread> world_;  // of MPI_COMM_WORLD; it starts and ends MPI
  std::shared_ptr<Call> started_;
  std::chrono::seconds finalize_;
  std::atomic<bool> orderly_ = true;
};

// Whether this process was started by mpiexec, srun or another launcher that MPI knows.
bool has_launcher();

// The name and version of the library: "Open MPI v4.1.4". May be called before MPI has started.
std::string library();

// "cuda" or "rocm" if the library says that it accesses the memory of such devices, else "". Open
// MPI 5 and MPICH say so only once they have started. May be called before.
std::string device_plugin();

}  // namespace collectives::mpi

#endif  // COLLECTIVES_MPI_PROCESS_H_
