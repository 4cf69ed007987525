// Which rank of which job this process is, as the program that started it says in variables.
#ifndef RUNTIME_LAUNCH_ENVIRONMENT_H_
#define RUNTIME_LAUNCH_ENVIRONMENT_H_

#include <functional>
#include <map>
#include <string>

namespace runtime::launch {

struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  // among the ranks of this job on this machine
  int local_size = 1;
  std::string source;           // "Open MPI's mpirun", "" when nothing started us as a rank
  bool launcher_binds = false;  // the launcher is one that may give each rank its cores
  std::string marker = {};      // the variable that tells of `source`
};

inline constexpr const char* kOpenMpi = "Open MPI's mpirun";  // RankEnvironment::source

// As std::getenv: nullptr for a variable that is not set.
using GetVariable = std::function<const char*(const char*)>;

// Reads the first of these that is there; an inner launcher comes before an outer one that leaves
// its variables behind:
//   our own launcher, torchrun (torch elastic), Open MPI, MPICH and relatives (Hydra), Slurm
//   (inside an srun step only: a batch script or an salloc shell is one rank), another PMI
//   launcher, PMIx alone (the number of ranks is RUNTIME_WORLD_SIZE), RANK and WORLD_SIZE set by
//   hand or by a Kubernetes operator.
// Without variables about this machine a rank is alone on it. Nothing set: one rank.
// ConfigurationError names a variable that is missing, no number or out of range.
RankEnvironment detect(const GetVariable& get);
RankEnvironment detect();  // of this process

// `asked`: launch.ranks, or --nproc. It agrees with every environment if it is 1, and with any if
// nothing has started this process as a rank; else it must be the number of ranks there are.
// ConfigurationError names both.
void check_asked_ranks(int asked, const RankEnvironment& found);

// The variables from which detect() reads `rank` again.
std::map<std::string, std::string> variables_of(const RankEnvironment& rank);

// "file:<folder>" of the launcher's: where ranks on this machine find each other.
inline constexpr const char* kRendezvousVariable = "RUNTIME_RENDEZVOUS";
// The variable that our launcher sets for its ranks: the same text in all attempts to run the job,
// and in no other job.
inline constexpr const char* kLaunchVariable = "RUNTIME_LAUNCH";
// Set for mpiexec's ranks: how many there must be. If mpiexec's variables say otherwise, or are of
// a kind that detect() does not know, every rank would take itself for a job of its own.
inline constexpr const char* kExpectedVariable = "RUNTIME_EXPECTED_RANKS";

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_ENVIRONMENT_H_
