// A job and its ranks: those that this process starts, or the one rank that this process is.
#ifndef RUNTIME_LAUNCH_JOB_H_
#define RUNTIME_LAUNCH_JOB_H_

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

// A job as one process sees it: the ranks that run here, and how they meet the others. A process
// that computes goes through the steps in this order: join(), agree_on_mesh(), agree_on_folder(),
// on_each_rank(). One thread uses it. Every step throws CommunicationError if ranks cannot meet or
// are lost, and what opening plugins and stores throws.
class Job {
 public:
  // Finds out how the ranks run: in this process if it is a rank (started by mpirun, srun, torchrun
  // or the launcher of this program) or if the configuration asks for one; else launch.ranks of
  // them in the way that the communication plugin says (rt_comm_properties.ranks), as threads or as
  // processes of this program; for that it looks for plugins. Signals are to be blocked before
  // join(). `services` are those of the plugins. `writes`: whether the job makes
  // files; then a process that a launcher has started among several, but not as a rank, is refused.
  Job(config::Config config, plugins::host::HostServices services, bool writes = false);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Whether this process computes. If it does not, start_processes() is all that there is to do.
  bool runs_here() const;
  // Starts the ranks as processes of this program with these arguments, waits for them, and returns
  // the exit code of the job.
  int start_processes(const std::vector<std::string>& arguments);

  // Whenever `questions`, a number that grows, has grown, the ranks of this process write
  // their last collectives into the folder of the run. To be called before join().
  void answer(std::function<int()> questions);

  // Opens the plugins and meets the other processes. Threads may be made from here on.
  void join();
  // With parallelism.search and several ranks: `choose` returns the mesh for `world_size` ranks. It
  // is called once in the job, by rank 0, with a rank that has no collectives.
  void agree_on_mesh(const std::function<config::Parallelism(const Rank&, int world_size)>& choose);
  // `make` makes the folder of the run and returns its path. It is called once in the job, by rank
  // 0, and may be null.
  void agree_on_folder(const std::function<std::string()>& make);
  // Connects the ranks and runs the body once for each rank of this process, in a thread of its own
  // if there are several. Returns the exit code of a rank that has printed its error itself, else
  // 0. Throws what the body throws.
  int on_each_rank(const std::function<void(Rank&)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// All steps of a job that makes no files and does not choose its mesh. Returns its exit code.
int run_ranks(config::Config config, plugins::host::HostServices services,
              const std::vector<std::string>& arguments, const std::function<void(Rank&)>& body);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_JOB_H_
