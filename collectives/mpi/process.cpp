// Starts MPI once in a process, with the variables that it needs, and finalises it at the end.
#include "process.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include "status.h"

namespace collectives::mpi {
namespace {

using rt::sdk::Error;

// Environment variables are the only way to configure the MPI libraries here. Values that the user
// or mpiexec has set are kept.
void set_default(const char* name, const std::string& value) {
  setenv(name, value.c_str(), /*overwrite=*/0);
}

void initialise(const Start& start) {
  // The loopback interface is ignored: ranks of one host use shared memory instead.
  if (!start.interface.empty() && start.interface != "lo") {
    set_default("OMPI_MCA_btl_tcp_if_include", start.interface);
    set_default("UCX_NET_DEVICES", start.interface);
  }
  // A thread that waits in a blocking call leaves its core to the step, which computes meanwhile.
  set_default("OMPI_MCA_mpi_yield_when_idle", "1");
  // Without mpiexec, Open MPI would start a daemon for this process.
  if (!has_launcher()) set_default("OMPI_MCA_ess_singleton_isolated", "1");
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread",
        RT_SCOPE_PROCESS);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (provided < MPI_THREAD_MULTIPLE) {
    throw Error(RT_ERROR_UNAVAILABLE,
                rt::sdk::format("this MPI library offers thread level %d, needed is %d "
                                "(MPI_THREAD_MULTIPLE); use one that was built with it",
                                provided, MPI_THREAD_MULTIPLE),
                RT_SCOPE_PROCESS);
  }
}

}  // namespace

bool has_launcher() {
  return std::getenv("PMIX_RANK") != nullptr || std::getenv("PMI_RANK") != nullptr;
}

std::string library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string name(text);
  name.resize(std::min(name.find_first_of(",\n"), name.size()));
  std::replace(name.begin(), name.end(), '\t', ' ');
  return name;
}

std::string device_plugin() {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  if (MPIX_Query_cuda_support() == 1) return "cuda";
#endif
#if defined(MPIX_ROCM_AWARE_SUPPORT)
  if (MPIX_Query_rocm_support() == 1) return "rocm";
#endif
#if defined(MPIX_GPU_SUPPORT_CUDA)
  // MPICH ends a process that asks this before MPI has started.
  int started = 0, reads = 0;
  MPI_Initialized(&started);
  if (started == 0) return "";
  if (MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &reads) == MPI_SUCCESS && reads != 0)
    return "cuda";
  if (MPIX_GPU_query_support(MPIX_GPU_SUPPORT_HIP, &reads) == MPI_SUCCESS && reads != 0)
    return "rocm";
#endif
  return "";
}

std::shared_ptr<Process> Process::join(const Start& start, Clock::time_point deadline) {
  // MPI belongs to the process and starts only once. These are therefore the only globals of this
  // plugin.
  static std::mutex mutex;
  static std::weak_ptr<Process> current;
  static bool used = false;
  std::shared_ptr<Process> process;
  {
    const std::lock_guard lock(mutex);
    process = current.lock();
    if (!process && used) {
      throw Error(RT_ERROR_UNAVAILABLE,
                  "MPI was ended in this process already, and can start once only; keep the plugin "
                  "until no communicator is needed any more",
                  RT_SCOPE_PROCESS);
    }
    if (!process) {
      process = std::make_shared<Process>(start);
      current = process;
      used = true;
    }
  }
  if (!process->world_->wait(process->started_, deadline)) {
    process->give_up();
    throw Error(RT_ERROR_TIMEOUT, "MPI_Init_thread did not return in time", RT_SCOPE_PROCESS);
  }
  return process;
}

Process::Process(const Start& start)
    : world_(ProgressThread::start({})), finalize_(start.finalize) {
  started_ = world_->submit(
      [world = world_.get(), start] {
        initialise(start);
        Team team{.comm = MPI_COMM_WORLD};
        check(MPI_Comm_rank(MPI_COMM_WORLD, &team.rank), "MPI_Comm_rank");
        check(MPI_Comm_size(MPI_COMM_WORLD, &team.size), "MPI_Comm_size");
        world->set_team(team);
      },
      /*meets=*/false);
}

Process::~Process() {
  try {
    if (orderly_ && !world_->failure() && world_->team().comm != MPI_COMM_NULL) {
      const auto finalized = world_->submit([] { MPI_Finalize(); }, /*meets=*/false);
      world_->wait(finalized, Clock::now() + finalize_);
    }
  } catch (const Error&) {
    // The process ends without MPI_Finalize; mpiexec reports it.
  }
  world_->close();
}

}  // namespace collectives::mpi
