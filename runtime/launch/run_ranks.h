// Runs a command as all ranks of a job that this process is to start, or as the one rank that it
// is.
#ifndef RUNTIME_LAUNCH_RUN_RANKS_H_
#define RUNTIME_LAUNCH_RUN_RANKS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugins/host/registry.h"
#include "runtime/config/config.h"
#include "runtime/exec/collectives.h"
#include "runtime/launch/environment.h"
#include "runtime/launch/main_work.h"

namespace runtime::launch {

// What a rank's body is given. Valid while it runs.
struct Rank {
  RankEnvironment place;
  config::Config config;  // with device.threads filled in where ranks share the cores
  std::shared_ptr<plugins::host::Registry> registry;
  std::string backend;                       // communication plugin, "" for one rank
  exec::Collectives* collectives = nullptr;  // nullptr: one rank
  std::string run_folder;                    // "" if none is made
  // Opened already, where the communicators read its memory, with what train::open_device says of
  // the choice; nullptr: not yet.
  std::shared_ptr<plugins::host::Device> device = nullptr;
  std::string device_choice = {};
  MainWork* main_work = nullptr;  // nullptr: one rank
  bool main() const { return place.rank == 0; }
  // Rank 0 runs `work`; the others return when it is done, see main_work.h. Every rank calls it.
  void on_main(const char* what, const std::function<void()>& work) const;
};

struct RunRanks {
  config::Config config;
  std::vector<std::string> arguments;  // of this program, for ranks that are processes
  plugins::host::HostServices services;
  // With parallelism.search: the same with the mesh of so many ranks. Called once in the job, by
  // rank 0, before the folder of the run is made; the rank that it is given has no collectives.
  std::function<config::Parallelism(const Rank&, int world_size)> choose_mesh = nullptr;
  // Makes the run's folder; called once in the job, by rank 0. Empty: there is none.
  std::function<std::string()> make_run_folder = nullptr;
  // Called once in the calling thread, if ranks run in this process, before any thread is made.
  std::function<void()> prepare = nullptr;
  // Called once for each rank of this process, in threads of their own if there are several.
  std::function<void(Rank&)> body;
};

// If this process is a rank (mpirun, srun, torchrun or our own launcher has started it), or the
// configuration asks for one rank: runs the body. Else starts launch.ranks ranks: as threads with
// comm.backend = "local", as processes of this program otherwise. Returns the exit code of the
// processes, 0 where ranks ran here. Throws what the body throws, CommunicationError when a rank is
// lost, and what opening plugins and stores throws.
int run_ranks(const RunRanks& run);

// The plugin that comm.backend stands for. "auto": `of_devices` (see device_offers.h) if that is
// one, mpi under an MPI launcher, local for ranks that this process starts, else gloo, else mpi.
// Throws Error (RT_ERROR_UNAVAILABLE) that lists the communication plugins there are.
std::string choose_backend(const config::Config& config, const RankEnvironment& place,
                           const plugins::host::Registry& registry, const std::string& of_devices);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_RUN_RANKS_H_
