// MPI in this process: started by the first communicator, ended with the last plugin instance that
// used it.
#ifndef COLLECTIVES_MPI_PROCESS_H_
#define COLLECTIVES_MPI_PROCESS_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "owner.h"

namespace collectives::mpi {

// How MPI is started; that of the first caller counts.
struct Start {
  std::string interface;               // "": MPI chooses
  std::chrono::seconds finalize{600};  // how long an orderly end waits for the other ranks
};

// Thread-safe.
class Process {
 public:
  // The one of this process; waits until every rank has started. Throws RT_ERROR_TIMEOUT, or
  // RT_ERROR_UNAVAILABLE where MPI was ended already: it starts once a process.
  static std::shared_ptr<Process> join(const Start& start, Clock::time_point deadline);
  explicit Process(const Start& start);
  // Ends MPI, if all communicators were closed in order; else MPI is left as it is, so that an end
  // after an error hangs on nobody. mpiexec then ends the other ranks.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  Owner& world() { return *world_; }
  // A communicator was not closed in order.
  void give_up() { orderly_ = false; }

 private:
  std::shared_ptr<Owner> world_;  // MPI_COMM_WORLD; its thread starts and ends MPI
  std::shared_ptr<Call> started_;
  std::chrono::seconds finalize_;
  std::atomic<bool> orderly_ = true;
};

// Was this process started by mpiexec, srun or another launcher that MPI knows?
bool has_launcher();

// "Open MPI v4.1.4"; callable before MPI is started.
std::string library();

// "cuda" or "rocm", if the library says that it reads the memory of such devices; "" if not. Open
// MPI 5 says so only once it is started.
std::string device_plugin();

}  // namespace collectives::mpi

#endif  // COLLECTIVES_MPI_PROCESS_H_
