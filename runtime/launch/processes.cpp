// Starts attempts, by itself or through mpiexec, until one succeeds or none is left.
#include "runtime/launch/processes.h"

#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include "plugins/host/program.h"
#include "runtime/error.h"
#include "runtime/launch/environment.h"
#include "runtime/launch/job_board.h"
#include "runtime/launch/orders.h"
#include "runtime/launch/rendezvous_folder.h"
#include "runtime/launch/slots.h"
#include "runtime/launch/supervisor.h"
#include "runtime/output_error.h"
#include "runtime/system/descriptors.h"

namespace runtime::launch {

namespace {

constexpr int kLostRank = static_cast<int>(ExitCode::kCommunication);
constexpr int kFailedDevice = static_cast<int>(ExitCode::kPlugin);

using Variables = std::map<std::string, std::string>;

// Returns the variables of this process, with those of `changes` added or replaced.
std::vector<std::string> environment_with(const Variables& changes) {
  std::vector<std::string> list;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) list.push_back(text);
  }
  for (const auto& [name, value] : changes) list.push_back(name + "=" + value);
  return list;
}

// Works even if the program's file has been replaced since the start, if /proc is mounted.
std::string program_to_start() {
  constexpr const char* kOpenFile = "/proc/self/exe";
  return access(kOpenFile, X_OK) == 0 ? kOpenFile : plugins::host::program_path().string();
}

std::vector<std::string> words(std::vector<std::string> first,
                               const std::vector<std::string>& arguments) {
  first.insert(first.end(), arguments.begin(), arguments.end());
  return first;
}

ChildSpec rank_of(const LaunchOptions& options, const Slots& slots, int local_rank,
                  const RendezvousFolder& folder) {
  const int here = slots.ranks();
  const LaunchOptions::Share share = options.share.value_or(LaunchOptions::Share{
      .program = program_to_start(), .world_size = here, .rendezvous = folder.address()});
  ChildSpec spec;
  spec.rank = share.first_rank + local_rank;
  spec.name = "rank " + std::to_string(spec.rank);
  const std::string prefix = "[" + spec.name + "] ";
  Variables variables =
      variables_of({spec.rank, share.world_size, local_rank, here, std::string(), false});
  variables[kRendezvousVariable] = share.rendezvous;
  variables[kJobFolderVariable] = folder.path();
  variables[kLaunchVariable] = options.launch_id;
  variables[kStoreKeptVariable] = share.keeps_store ? "1" : "";
  spec.program = share.program;
  spec.arguments = words({options.share ? share.program : plugins::host::program_path().string()},
                         options.arguments);
  if (!slots.complete())
    spec.arguments = words(spec.arguments, options.elastic.arguments(slots.of_ranks()));
  spec.environment = environment_with(variables);
  spec.remedy = "see that the program's file is still there and may be executed";
  if (!options.log_folder.empty())
    spec.log = options.log_folder + "/rank" + std::to_string(spec.rank) + ".log";
  spec.pipe_out = spec.rank != 0 || !spec.log.empty() || isatty(STDOUT_FILENO) == 0;
  spec.out_prefix = spec.rank == 0 ? "" : prefix;
  spec.err_prefix = prefix;
  return spec;
}

// The names are those of Open MPI 4 (mpirun(1), ompi_info) and of PRRTE, the launcher of Open MPI 5
// (prte_info); Hydra ignores them. Variables that the user has set take precedence.
Variables mpi_variables(const LaunchOptions& options) {
  Variables variables = {
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},      // allows more ranks than cores
      {"OMPI_MCA_hwloc_base_binding_policy", "none"},  // cores.h divides the cores instead
      {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
      {"PRTE_MCA_hwloc_default_binding_policy", "none"},
      {"OMPI_MCA_btl", "^tcp"}};  // TCP would listen on every interface
  if (geteuid() == 0) {           // Open MPI refuses root otherwise, even in a container
    variables["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
    variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  }
  std::erase_if(variables, [](const auto& v) { return std::getenv(v.first.c_str()) != nullptr; });
  variables[kExpectedVariable] = std::to_string(options.ranks);
  return variables;
}

ChildSpec mpiexec_of(const LaunchOptions& options, const RendezvousFolder& folder) {
  Variables variables = mpi_variables(options);
  variables[kRendezvousVariable] = folder.address();
  variables[kJobFolderVariable] = folder.path();
  variables[kLaunchVariable] = options.launch_id;
  variables[kStoreKeptVariable] = "";
  ChildSpec spec;
  spec.name = spec.program = options.mpiexec;
  spec.arguments = words({options.mpiexec, "-n", std::to_string(options.ranks),
                          plugins::host::program_path().string()},
                         options.arguments);
  spec.environment = environment_with(variables);
  spec.remedy =
      "install Open MPI or MPICH, set launch.mpiexec to its mpiexec, or use another comm.backend";
  // mpiexec writes to a terminal itself. All other output goes through this process, because
  // mpiexec would end if its reader were gone.
  spec.pipe_out = isatty(STDOUT_FILENO) == 0;
  spec.pipe_err = isatty(STDERR_FILENO) == 0;
  spec.end_signal = SIGTERM;
  return spec;
}

// Posts the loss of a rank on the launcher's board. If that fails, the other ranks notice the loss
// by themselves, only later.
void post_loss(const RendezvousFolder& folder, int ranks, int rank, const std::string& how,
               bool gave_up) {
  using Kind = watch::Note::Kind;
  try {
    launcher_board(folder.path(), ranks)
        ->post({.rank = rank, .kind = gave_up ? Kind::kTold : Kind::kLost, .text = how});
  } catch (const Error& error) {
    std::fprintf(stderr, "warning: %s\n", error.what());
  }
}

OutputError lost_output(int error) {
  return OutputError(
      std::string("cannot write what the ranks print to the standard output: ") +
      std::strerror(error) +
      "; their work is done, but part of the output is lost: make room (df), or send "
      "it elsewhere");
}

// A rank that ends with a code that is not documented counts as lost, like one that was killed: a
// plugin may have called _exit, and mpiexec returns 128 + signal or the bare signal.
bool is_documented(int exit_code) {
  return exit_code == 0 || is_stop_code(exit_code) ||
         (exit_code >= static_cast<int>(ExitCode::kConfiguration) &&
          exit_code <= static_cast<int>(ExitCode::kNumeric));
}

using MakeSpecs =
    std::function<std::vector<ChildSpec>(const Slots& slots, const RendezvousFolder& folder)>;

// The attempts to run one job.
class ProcessJob {
 public:
  // `machines`: those of launch_launchers(); nullptr: the processes are ranks.
  ProcessJob(const LaunchOptions& options, const MakeSpecs& make_specs,
             const Machines* machines = nullptr)
      : options_(options),
        make_specs_(make_specs),
        machines_(machines),
        slots_(options.ranks, options.elastic.min_ranks, options.elastic.replica) {}

  int run() {
    std::fflush(nullptr);
    Ending ending = attempt();
    while (goes_on(ending)) ending = attempt();
    if (ending.exit_code == 0 && ending.output_error != 0) throw lost_output(ending.output_error);
    const bool own = options_.share && !ending.told_to_stop && ending.lost >= 0;
    return own && ending.exit_code == kLostRank ? kLostOwnRank : ending.exit_code;
  }

 private:
  bool is_elastic() const { return options_.elastic.min_ranks > 0; }

  Ending attempt() {
    const RendezvousFolder folder;
    Supervision supervision;
    supervision.patience = options_.patience;
    supervision.ending_limit = options_.ending_limit;
    supervision.saving = options_.saving;
    if (options_.share) supervision.orders = options_.share->orders;
    supervision.is_saving = [&] { return is_saving(folder.path()); };
    supervision.on_loss = [&](int rank, const std::string& how, bool gave_up) {
      post_loss(folder, options_.share ? options_.share->world_size : slots_.ranks(), rank, how,
                gave_up);
    };
    if (!slots_.complete() && options_.elastic.rejoin.count() > 0) {
      supervision.regroup_interval = options_.elastic.rejoin;
      supervision.should_regroup = [&] { return has_saved(folder.path()) && regroup(); };
    }
    if (machines_ != nullptr && machines_->rejoin.count() > 0) {
      supervision.regroup_interval = machines_->rejoin;
      supervision.should_regroup = machines_->is_back;
    }
    Ending ending = supervise(make_specs_(slots_, folder), signals_, supervision);
    // A shell says so if there is no such program on the machine, or none that may be executed.
    if (machines_ != nullptr && (ending.exit_code == 126 || ending.exit_code == 127))
      ending.exit_code = static_cast<int>(ExitCode::kConfiguration);
    // If the user has asked the ranks to stop, their exit codes are kept as they are.
    if (!ending.asked && !is_documented(ending.exit_code)) ending.exit_code = kLostRank;
    had_met_ |= has_saved(folder.path());
    return ending;
  }

  // Numbers that are not finite are no fault of a machine.
  bool is_loss_of_new(const Ending& ending) const {
    return machines_ != nullptr && !ending.asked && ending.exit_code != 0 &&
           ending.exit_code != static_cast<int>(ExitCode::kNumeric) &&
           machines_->is_new(ending.lost);
  }

  // A device that fails in an elastic job is lost like a rank, once it has worked in the job.
  bool is_loss(const Ending& ending) const {
    if (ending.asked) return false;
    return ending.exit_code == kLostRank ||
           (is_elastic() && had_met_ && ending.exit_code == kFailedDevice);
  }

  // Decides with which slots the next attempt is made. Returns false if there is none.
  bool goes_on(const Ending& ending) {
    if (ending.regroups) {
      restarts_ = 0;
      if (machines_ != nullptr) return true;
      slots_.take_back();
      std::fprintf(stderr, "all %d ranks go on from that checkpoint\n", slots_.ranks());
      return true;
    }
    const bool of_new = is_loss_of_new(ending);
    if (!is_loss(ending) && !of_new) return false;
    if (!of_new && restarts_ < options_.max_restarts) {
      std::fprintf(stderr, "restart %d of %d\n", ++restarts_, options_.max_restarts);
      if (machines_ != nullptr) pause();
      return true;
    }
    if (machines_ != nullptr) {
      restarts_ = 0;
      if (!machines_->leave_out(ending.lost)) return false;
      pause();
      return true;
    }
    return is_elastic() && leave_out(ending.lost);
  }

  // A machine that is lost may need time to come back. A signal ends the pause.
  void pause() const {
    const int seconds = std::min(1 << std::min(restarts_, 5), 30);
    pollfd signals{.fd = signals_.fd(), .events = POLLIN, .revents = 0};
    ::poll(&signals, 1, 1000 * seconds);
  }

  bool leave_out(int rank) {
    const int before = slots_.ranks();
    if (rank < 0) {
      std::fprintf(stderr,
                   "error: it is not known which rank was lost, so that none can be left out\n");
      return false;
    }
    if (!slots_.leave_out(rank)) {
      std::fprintf(stderr,
                   "error: without rank %d fewer ranks are left than launch.min_ranks = %d and a "
                   "whole replica of the model (%d) need\n",
                   rank, options_.elastic.min_ranks, options_.elastic.replica);
      return false;
    }
    restarts_ = 0;
    std::fprintf(stderr, "rank %d is left out: %d of %d ranks go on from the last checkpoint\n",
                 rank, slots_.ranks(), before);
    return true;
  }

  // Says that the ranks are to end after a checkpoint, if a device that was left out is back.
  bool regroup() const {
    const std::vector<int>& out = slots_.left_out();
    const bool back = std::any_of(out.begin(), out.end(), options_.elastic.is_back);
    if (back)
      std::fprintf(stderr,
                   "a device that was left out can be used again: its rank is taken in "
                   "after the next checkpoint\n");
    return back;
  }

  const LaunchOptions& options_;
  const MakeSpecs& make_specs_;
  const Machines* const machines_;
  const Signals signals_;
  Slots slots_;
  int restarts_ = 0;      // with the present slots
  bool had_met_ = false;  // the ranks of an attempt have met and opened their devices
};

}  // namespace

int launch_processes(const LaunchOptions& options) {
  // Two pipes and perhaps a log for each rank, and what one start and the supervisor need.
  const uint64_t each = options.log_folder.empty() ? 2 : 3;
  system::require_descriptors(each * static_cast<uint64_t>(options.ranks) + 12,
                              "the launcher of " + std::to_string(options.ranks) + " ranks");
  const auto specs = [&](const Slots& slots, const RendezvousFolder& folder) {
    std::vector<ChildSpec> list;
    list.reserve(static_cast<size_t>(slots.ranks()));
    for (int rank = 0; rank < slots.ranks(); ++rank)
      list.push_back(rank_of(options, slots, rank, folder));
    return list;
  };
  return ProcessJob(options, specs).run();
}

int launch_mpi(const LaunchOptions& options) {
  const auto specs = [&](const Slots&, const RendezvousFolder& folder) {
    return std::vector<ChildSpec>{mpiexec_of(options, folder)};
  };
  return ProcessJob(options, specs).run();
}

int launch_launchers(const LaunchOptions& options, const Machines& machines) {
  const auto specs = [&](const Slots&, const RendezvousFolder&) {
    std::vector<ChildSpec> launchers = machines.launchers();
    system::require_descriptors(
        3 * launchers.size() + 12,
        "the launcher on " + std::to_string(launchers.size()) + " machines");
    return launchers;
  };
  return ProcessJob(options, specs, &machines).run();
}

void end_with_parent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

}  // namespace runtime::launch
