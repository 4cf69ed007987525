// Runs a command on all ranks of a job: on those that this process starts, or on the one rank that
// this process is.
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

// What the body of a rank is given. It is valid while the body runs.
struct Rank {
  RankEnvironment place;
  config::Config config;  // with device.threads filled in if ranks divide the cores
  std::shared_ptr<plugins::host::Registry> registry;
  std::string backend;                       // communication plugin; "" for one rank
  exec::Collectives* collectives = nullptr;  // nullptr for one rank
  std::string run_folder;                    // "" if none is made
  bool one_process = false;                  // all of several ranks are threads of this process
  // The device, if it is open already because the communicators read its memory, and what
  // open_device says about its choice; nullptr: not open yet.
  std::shared_ptr<plugins::host::Device> device = nullptr;
  std::string device_choice = {};
  MainWork* main_work = nullptr;  // nullptr for one rank
  std::string job_folder = {};    // that of the launcher of this program; "" if there is none
  bool main() const { return place.rank == 0; }
  // Rank 0 runs `work`, and on_main() returns on the other ranks when it is done; see main_work.h.
  // Every rank must call it.
  void on_main(const char* what, const std::function<void()>& work) const;
  // exec/texts.h: the texts of all ranks on rank 0, and that of rank 0 on all ranks.
  std::vector<std::string> gather_texts(std::string own) const;
  std::string broadcast_text(std::string of_rank_0) const;
};

// The arguments of run_ranks().
struct RunRanks {
  config::Config config;
  std::vector<std::string> arguments;  // of this program, for ranks that are processes
  plugins::host::HostServices services;
  // With parallelism.search: returns the mesh for `world_size` ranks. Called once in the job, by
  // rank 0, before the folder of the run is made. The rank that is passed has no collectives.
  std::function<config::Parallelism(const Rank&, int world_size)> choose_mesh = nullptr;
  // Makes the folder of the run and returns its path. Called once in the job, by rank 0. Null: no
  // folder is made.
  std::function<std::string()> make_run_folder = nullptr;
  // Called once in the calling thread, before any thread is made, if ranks run in this process.
  std::function<void()> prepare = nullptr;
  // Called once for each rank of this process, in a thread of its own if there are several.
  std::function<void(Rank&)> body;
};

// Runs the body if this process is a rank (started by mpirun, srun, torchrun or the launcher of
// this program) or if the configuration asks for one rank. Otherwise starts launch.ranks ranks in
// the way that the communication plugin says (rt_comm_properties.ranks): as threads, or as
// processes of this program. Returns the exit code of the processes, or 0 if ranks ran here. Throws
// what the body throws, CommunicationError if a rank is lost, and what opening plugins and stores
// throws.
int run_ranks(const RunRanks& run);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_RUN_RANKS_H_
