// Which rank of which job this process is, according to the environment variables that its launcher
// has set.
#ifndef RUNTIME_LAUNCH_ENVIRONMENT_H_
#define RUNTIME_LAUNCH_ENVIRONMENT_H_

#include <functional>
#include <map>
#include <string>

namespace runtime::launch {

// The place of a rank in its job.
struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;           // among the ranks of this job on this machine
  int local_size = 1;           // ranks of this job on this machine
  std::string source;           // "Open MPI's mpirun"; "": not started as a rank
  bool launcher_binds = false;  // the launcher may bind each rank to cores
  std::string marker = {};      // the variable by which `source` was recognised
};

inline constexpr const char* kOpenMpi = "Open MPI's mpirun";  // RankEnvironment::source

// Like std::getenv: nullptr for a variable that is not set.
using GetVariable = std::function<const char*(const char*)>;

// Reads the variables of the first launcher in this list that has set its own; an inner launcher
// precedes an outer one whose variables are inherited:
//   the launcher of this program, torchrun (torch elastic), Open MPI, MPICH and relatives (Hydra),
//   MVAPICH2, jsrun, Flux, PALS, Slurm (inside an srun step only: a batch script or an salloc shell
//   is one rank), another PMI launcher, PMIx alone (the number of ranks is RUNTIME_WORLD_SIZE),
//   RANK and WORLD_SIZE set by hand or by a Kubernetes operator, PET_* of an operator that wants
//   one process on each node, an Indexed Job.
// Without variables about this machine, a rank is alone on it. Without any variable there is one
// rank. Throws ConfigurationError that names a variable that is missing, not a number or out of
// range.
RankEnvironment detect(const GetVariable& get);
RankEnvironment detect();  // with the environment of this process

// Throws ConfigurationError if `asked` (launch.ranks or --nproc) contradicts the environment; the
// message names both. 1 agrees with every environment, and every number agrees if no launcher has
// started this process as a rank. Otherwise `asked` must be the world size.
void check_asked_ranks(int asked, const RankEnvironment& found);

// Throws ConfigurationError if this process would be a job of one rank (`asked` is 1 and `found`
// has no source) although variables say that several processes were started or are wanted: those of
// an Indexed Job, of torchrun's operators, of a batch script of Slurm, of Flux and of others. The
// message names the variables with their values, and how to start ranks or to run alone.
void check_alone(int asked, const RankEnvironment& found, const GetVariable& get);

// Returns what to add to the message of an error in finding the other ranks: by which variable,
// maybe a left-over one, this process takes itself for a rank. Returns "" if this program's own
// launcher has started it, or none.
std::string reason_of(const RankEnvironment& found);

// Returns the variables from which detect() reads `rank` again.
std::map<std::string, std::string> variables_of(const RankEnvironment& rank);

// Set by the launcher of this program: where its ranks find each other, "file:<folder>" if all of
// them are on this machine.
inline constexpr const char* kRendezvousVariable = "RUNTIME_RENDEZVOUS";
// Set by the launcher of this program: the folder in which it and its ranks tell each other what
// has happened.
inline constexpr const char* kJobFolderVariable = "RUNTIME_JOB_FOLDER";
// Set by an agent of `runtime launch` that keeps the store at RUNTIME_RENDEZVOUS for rank 0: "1".
inline constexpr const char* kStoreKeptVariable = "RUNTIME_STORE_KEPT";
// Set by the launcher of this program for its ranks. The value is the same in all attempts to run a
// job and differs between jobs.
inline constexpr const char* kLaunchVariable = "RUNTIME_LAUNCH";
// Set for the ranks of mpiexec: the number of ranks that must exist. Without this check, every rank
// would take itself for a job of its own if mpiexec's variables were of a kind that detect() does
// not know.
inline constexpr const char* kExpectedVariable = "RUNTIME_EXPECTED_RANKS";

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_ENVIRONMENT_H_
