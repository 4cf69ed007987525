// Joins a job as thread, process or only rank: store, plugins, device, communicators, then the
// command.
#include "runtime/launch/job.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <sstream>

#include "plugins/host/communicator.h"
#include "plugins/host/error.h"
#include "plugins/host/options.h"
#include "runtime/error.h"
#include "runtime/exec/texts.h"
#include "runtime/launch/communicators.h"
#include "runtime/launch/cores.h"
#include "runtime/launch/device_offers.h"
#include "runtime/launch/groups.h"
#include "runtime/launch/job_board.h"
#include "runtime/launch/key_value.h"
#include "runtime/launch/memory_store.h"
#include "runtime/launch/nonce.h"
#include "runtime/launch/open_device.h"
#include "runtime/launch/processes.h"
#include "runtime/launch/rendezvous.h"
#include "runtime/launch/rendezvous_folder.h"
#include "runtime/launch/slot_devices.h"
#include "runtime/launch/stores.h"
#include "runtime/launch/threads.h"
#include "runtime/step/ranks.h"
#include "runtime/system/control_groups.h"
#include "runtime/system/descriptors.h"

namespace runtime::launch {

namespace {

using plugins::host::Communicator;
using plugins::host::Registry;

std::chrono::nanoseconds seconds(double value) {
  return std::chrono::nanoseconds(static_cast<int64_t>(value * 1e9));
}

// What the ranks of a process have in common, and where they meet the ranks of other processes.
struct Meeting {
  std::shared_ptr<Store> store;
  std::shared_ptr<watch::JobBoard> launcher;  // nullptr: no launcher of this program
  std::string prefix;
  std::shared_ptr<Registry> registry;
  std::string backend, run_folder, job_folder;
  bool one_process = false;  // see Rank
  watch::RankNames names = watch::RankNames();
  std::function<int()> questions = nullptr;  // see Job::answer()
};

plugins::host::CommunicatorOptions communicator_options(const config::Config& config,
                                                        const Meeting& meeting, const Rank& rank) {
  const RankEnvironment& place = rank.place;
  plugins::host::CommunicatorOptions o;
  o.rank = place.rank;
  o.world_size = place.world_size;
  o.local_rank = place.local_rank;
  o.prefix = meeting.prefix + "job";
  if (config.comm.interface != "lo") o.interface = config.comm.interface;
  o.device = rank.device;
  o.timeout = seconds(config.comm.init_timeout_s);
  const auto options = config.comm.options.find(meeting.backend);
  if (options != config.comm.options.end()) o.options = options->second;
  return o;
}

struct Communicators {
  std::shared_ptr<Communicator> job;                  // of all ranks
  std::vector<std::shared_ptr<Communicator>> by_use;  // see parallel/mesh.h; nullptr: unused

  std::vector<std::shared_ptr<Communicator>> all() const {
    std::vector<std::shared_ptr<Communicator>> list = {job};
    for (const auto& c : by_use) {
      if (c != nullptr && c != job) list.push_back(c);
    }
    return list;
  }
};

// Makes the communicator of all ranks. By default a rank publishes the address of its own machine's
// loopback interface, and ranks of other machines then wait in vain.
std::shared_ptr<Communicator> communicator_of_job(std::shared_ptr<plugins::host::Plugin> plugin,
                                                  const config::Config& config,
                                                  const Meeting& meeting, const Rank& rank) {
  try {
    return Communicator::create(std::move(plugin), communicator_options(config, meeting, rank));
  } catch (const plugins::host::Error& error) {
    if (config.comm.interface != "lo" || rank.place.local_size == rank.place.world_size) throw;
    throw plugins::host::Error(
        error.code(),
        std::string(error.what()) +
            "; with comm.interface = \"lo\" this rank has published 127.0.0.1, which no other "
            "machine reaches: if the ranks are on several machines, set comm.interface to the "
            "network between them (\"ip address\" lists those of a machine)",
        error.scope());
  }
}

// All ranks of the job must make the same splits in the same order.
Communicators communicators(const config::Config& config, const Meeting& meeting,
                            const Rank& rank) {
  const RankEnvironment& place = rank.place;
  const auto plugin = meeting.registry->open(meeting.backend);
  const parallel::Mesh mesh = step::mesh_of(config.parallelism, place.world_size);
  Communicators c;
  c.job = communicator_of_job(plugin, config, meeting, rank);
  // Splits off the ranks that share a communicator with this one.
  const auto share = [&](int communicator) {
    const std::vector<int> ranks = mesh.members(communicator, place.rank);
    const auto index = std::find(ranks.begin(), ranks.end(), place.rank) - ranks.begin();
    return c.job->split(ranks[0], static_cast<int>(index), seconds(config.comm.init_timeout_s));
  };
  const bool data_only = mesh.data == mesh.size();
  const bool asynchronous = step::is_asynchronous(config, mesh.data);
  if (asynchronous && !exec::CommAccess(*c.job).reads_host()) {
    throw ConfigurationError("comm.backend = \"" + meeting.backend +
                             "\" sends what is in the memory of devices only, and "
                             "parallelism.update = \"asynchronous\" what is in the host's; set "
                             "comm.backend to one of: " +
                             other_communicators(*meeting.registry, meeting.backend));
  }
  const bool second = config.parallelism.sync_batch_norm || asynchronous;
  const bool replicas = mesh.replicas() > 1;
  c.by_use = {data_only ? c.job : share(parallel::kGradientsCommunicator),
              second ? share(parallel::kStatisticsCommunicator) : nullptr,
              mesh.tensor > 1 ? share(parallel::kTensorCommunicator) : nullptr,
              mesh.pipeline > 1 ? share(parallel::kPipelineCommunicator) : nullptr,
              replicas ? share(parallel::kPartitionsCommunicator) : nullptr,
              replicas ? share(parallel::kReplicasCommunicator) : nullptr};
  return c;
}

watch::WatchdogOptions watchdog_options(const config::Config& config, const Meeting& meeting,
                                        const RankEnvironment& place) {
  watch::WatchdogOptions o;
  o.timeout = seconds(config.comm.timeout_s);
  o.hang = seconds(config.comm.hang_s);
  o.job_folder = meeting.job_folder;
  o.run_folder = meeting.run_folder;
  o.names = meeting.names;
  o.questions = meeting.questions;
  o.groups = groups_of(step::mesh_of(config.parallelism, place.world_size));
  using watch::Told;
  // mpiexec ends all ranks once one has ended, perhaps before the one that speaks.
  const bool together = meeting.launcher != nullptr && !started_by_mpi(place);
  o.told = meeting.one_process ? Told::kAll : together ? Told::kNothing : Told::kBriefly;
  return o;
}

Rank make_rank(const config::Config& config, const Meeting& meeting, const RankEnvironment& place) {
  Rank rank{place,
            config,
            meeting.registry,
            meeting.backend,
            nullptr,
            meeting.run_folder,
            meeting.one_process};
  // Open MPI's ranks always see a terminal, whatever mpirun writes to.
  if (place.source == kOpenMpi && rank.config.metrics.progress == "auto")
    rank.config.metrics.progress = "lines";
  return rank;
}

// Runs one of several ranks. Each communicator is passed to `created`, for a thread that may have
// to abort it.
void run_one_of(const config::Config& config, const Meeting& meeting, const RankEnvironment& place,
                int threads, const std::function<void(Rank&)>& body,
                const std::function<void(std::shared_ptr<Communicator>)>& created) {
  watch::FlightRecorder recorder(place.rank, meeting.job_folder);
  StoreJobBoard board(*meeting.store, place.world_size, meeting.prefix, meeting.launcher,
                      place.local_size < place.world_size);
  watch::Watchdog watchdog(recorder, board, watchdog_options(config, meeting, place));
  // These objects live outside of watchdog.run(), because the note that run() posts about this rank
  // must not wait for their destructors.
  Communicators list;
  std::optional<exec::Collectives> collectives;
  Rank rank = make_rank(config, meeting, place);
  if (rank.config.device.threads == 0) rank.config.device.threads = threads;
  watchdog.run([&] {
    rank.device = open_device_for(*meeting.registry->open(meeting.backend), rank.config,
                                  *meeting.registry, place.local_rank, &rank.device_choice);
    list = communicators(config, meeting, rank);
    if (created) {
      for (const auto& c : list.all()) created(c);
    }
    collectives.emplace(list.by_use, place.rank, place.world_size, recorder, watchdog,
                        config.comm.check, list.job);
    rank.collectives = &*collectives;
    MainWork main_work(*meeting.store, watchdog,
                       {meeting.prefix, place.rank, seconds(config.comm.timeout_s),
                        seconds(config.comm.save_timeout_s), meeting.job_folder});
    rank.main_work = &main_work;
    body(rank);
  });
}

// Finds the plugins. One process on each machine reports those that were rejected; it is a process
// that computes, not the launcher.
std::shared_ptr<Registry> find_plugins(const config::Config& config,
                                       const plugins::host::HostServices& services,
                                       int local_rank) {
  auto registry = open_registry(config, services);
  if (local_rank == 0) registry->log_rejections();
  return registry;
}

void abort(Communicator& communicator) {
  try {
    communicator.abort();
  } catch (const plugins::host::Error&) {
    // The ranks end with an error anyway, and this one comes behind it.
  }
}

// Called in an exception handler. Tells the ranks that wait for this one why it will not come, if
// no watchdog has told them, because there was no memory for the watchdog or no thread for the
// rank.
void post_unwatched_error(const Meeting& meeting, int ranks, int rank) {
  StoreJobBoard board(*meeting.store, ranks, meeting.prefix);
  if (board.alarm()) return;
  try {
    throw;
  } catch (const std::exception& error) {
    board.post({.rank = rank,
                .kind = watch::Note::Kind::kOwnError,
                .text = error.what(),
                .exit_code = static_cast<int>(ExitCode::kPlugin)});
  }
}

// Runs the ranks as threads of this process.
void run_threads(const config::Config& config, const Meeting& meeting, int share,
                 const std::function<void(Rank&)>& body) {
  const int ranks = config.launch.ranks;
  std::mutex mutex;
  std::vector<std::shared_ptr<Communicator>> all;
  bool aborted = false;
  const auto thread = [&](int r) {
    try {
      run_one_of(config, meeting, {r, ranks, r, ranks, "", false}, share, body,
                 [&](std::shared_ptr<Communicator> c) {
                   const std::lock_guard lock(mutex);
                   if (aborted) abort(*c);
                   all.push_back(std::move(c));
                 });
    } catch (...) {
      post_unwatched_error(meeting, ranks, r);
      throw;
    }
  };
  const auto abort_all = [&] {
    // If a thread could not be started, no rank has posted the error yet. It is then posted for the
    // last rank, which has no thread.
    post_unwatched_error(meeting, ranks, ranks - 1);
    const std::lock_guard lock(mutex);
    aborted = true;
    for (const auto& c : all) abort(*c);
  };
  run_rank_threads({ranks, thread, abort_all});
}

// Returns how the job goes on without ranks that are lost. `devices` must outlive the result.
Elastic elastic_options(const config::Config& config, const SlotDevices& devices) {
  Elastic e;
  e.min_ranks = config.launch.min_ranks;
  const config::Parallelism& p = config.parallelism;
  if (!p.search) e.replica = p.tensor * p.pipeline * std::max(1, p.zero_ranks);
  e.arguments = [&](const std::vector<int>& slots) { return devices.arguments(slots); };
  e.rejoin = seconds(60 * config.launch.rejoin_minutes);
  e.is_back = [&](int slot) { return devices.is_back(slot); };
  return e;
}

// Starts them by mpiexec if `by_mpi` is true. `devices` is null unless launch.min_ranks is given.
int start(const config::Config& config, const std::vector<std::string>& arguments, bool by_mpi,
          const SlotDevices* devices) {
  LaunchOptions o;
  if (devices != nullptr) o.elastic = elastic_options(config, *devices);
  o.ranks = config.launch.ranks;
  o.arguments = arguments;
  // Ranks of mpiexec cannot know what mpiexec writes to.
  if (by_mpi && config.metrics.progress == "auto") {
    const bool terminal = isatty(STDOUT_FILENO) != 0;
    o.arguments.insert(o.arguments.end(),
                       {"--set", terminal ? "metrics.progress=bar" : "metrics.progress=lines"});
  }
  o.max_restarts = config.launch.max_restarts;
  o.launch_id = make_nonce();
  o.patience = seconds(config.comm.timeout_s);
  o.saving = seconds(config.comm.save_timeout_s);
  o.ending_limit = seconds(config.comm.timeout_s + config.comm.save_timeout_s);
  o.mpiexec = config.launch.mpiexec;
  o.log_folder = config.launch.log_folder;
  return by_mpi ? launch_mpi(o) : launch_processes(o);
}

// Returns the communication plugin of the job. With comm.backend = "auto", each rank stores which
// plugin its device could use (device_offers.h), and rank 0 stores the one that all can use, if
// any.
std::string agree_on_backend(const config::Config& config, const Meeting& meeting, Store& store,
                             const RankEnvironment& place) {
  const auto choose = [&](const std::string& of_devices) {
    return choose_communicator(config, place, *meeting.registry, of_devices).name;
  };
  if (config.comm.backend != "auto") return choose("");
  const std::string key = meeting.prefix + "communicator";
  const auto timeout = seconds(config.comm.init_timeout_s);
  store.set(key + "/" + std::to_string(place.rank),
            device_offer(config, *meeting.registry, place.local_rank, place.world_size));
  if (place.rank == 0) {
    std::vector<std::string> offers;
    for (int r = 0; r < place.world_size; ++r)
      offers.push_back(store.get(key + "/" + std::to_string(r), timeout, r));
    store.set(key, common_offer(offers));
  }
  return choose(store.get(key, timeout, 0));
}

// Sets `store`, `job_folder`, `launcher` and `prefix` of `meeting`, and returns the store in which
// a rank that waits for a key learns at once from the launcher that another rank is gone.
std::shared_ptr<Store> meet(const config::Comm& comm, const RankEnvironment& place,
                            Meeting& meeting) {
  const GetVariable get = [](const char* name) { return std::getenv(name); };
  const StoreChoice choice = choose_store(comm.rendezvous, comm.rendezvous_address, place, get);
  meeting.store = open_store(choice, place.world_size, seconds(comm.init_timeout_s));
  std::shared_ptr<Store> store = meeting.store;
  if (const char* const folder = std::getenv(kJobFolderVariable)) {
    meeting.job_folder = folder;
    meeting.launcher = launcher_board(folder, place.world_size);
    store = std::make_shared<AttendedStore>(store, meeting.launcher);
  }
  meeting.prefix =
      join(*store, place.rank, place.world_size, seconds(comm.init_timeout_s), choice.run_hint);
  return store;
}

// Does what meet() does. Its errors tell why this process looks for other ranks at all.
std::shared_ptr<Store> meet_or_say_why(const config::Comm& comm, const RankEnvironment& place,
                                       Meeting& meeting) {
  try {
    return meet(comm, place, meeting);
  } catch (const CommunicationError& error) {
    throw CommunicationError(error.what() + reason_of(place));
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(error.what() + reason_of(place));
  }
}

// Files that a rank has open beside its connections to the other ranks: data, metrics, a log, the
// libraries of plugins while they are loaded, shared memory.
constexpr uint64_t kOwnFiles = 24;

// Only ranks that this program starts as processes can be started again without one of them.
void check_elastic(const config::Config& config, const RankEnvironment& place) {
  const char* const rendezvous = std::getenv(kRendezvousVariable);
  const bool elsewhere = rendezvous != nullptr && !std::string(rendezvous).starts_with("file:");
  if (config.launch.min_ranks == 0 || (std::getenv(kLaunchVariable) != nullptr && !elsewhere))
    return;
  throw ConfigurationError("launch.min_ranks = " + std::to_string(config.launch.min_ranks) +
                           ", but the ranks were started by " + place.source +
                           ", which alone can start them again: set launch.min_ranks = 0, let "
                           "that launcher start the rest again after a loss (torchrun: "
                           "--nnodes=MIN:MAX --max-restarts), and give --resume auto");
}

void check_elastic(const config::Config& config,
                   const plugins::host::PluginDescription& communicator) {
  if (config.launch.min_ranks == 0) return;
  std::string why;
  if (in_one_process(communicator)) why = "runs the ranks as threads, which are lost together";
  if (communicator.communicator->ranks == RT_RANKS_MPI)
    why = "leaves the ranks to mpiexec, which ends all of them when one is lost";
  if (why.empty()) return;
  throw ConfigurationError("launch.min_ranks = " + std::to_string(config.launch.min_ranks) +
                           ", but comm.backend = \"" + communicator.name + "\" " + why +
                           "; choose one whose ranks are processes that this program starts "
                           "(runtime plugins list), or set launch.min_ranks = 0");
}

}  // namespace

void Rank::on_main(const char* what, const std::function<void()>& work) const {
  if (main_work != nullptr) return main_work->run(what, work);
  const SavingLock lock(job_folder);
  work();
}

std::vector<std::string> Rank::gather_texts(std::string own) const {
  return exec::gather_texts(std::move(own), collectives);
}

std::string Rank::broadcast_text(std::string of_rank_0) const {
  return exec::broadcast_text(std::move(of_rank_0), collectives);
}

namespace {

// Only who starts processes can tell which of them prints what.
void check_log_folder(const std::string& folder, bool fits) {
  if (folder.empty() || fits) return;
  throw ConfigurationError(
      "launch.log_folder = \"" + folder +
      "\" is for ranks that are processes which this program starts (--nproc N, with a "
      "comm.backend of that kind); for one rank or ranks that are threads, redirect the output of "
      "this process, and for those of another launcher use its own option (torchrun: --log-dir, "
      "mpirun: --output-filename, srun: --output, runtime launch: --log-folder)");
}

}  // namespace

struct Job::State {
  // How the ranks run. In the last two this process only starts them and waits.
  enum class Kind { kAlone, kThreads, kRank, kProcesses, kMpi };

  config::Config config;
  plugins::host::HostServices services;
  RankEnvironment place;
  Kind kind = Kind::kAlone;
  Meeting meeting = {};
  std::shared_ptr<Store> waiting = {};  // of kRank: the store in which it waits for other ranks
  CoreShare share = {};                 // of a rank
  std::optional<SlotDevices> devices = {};

  // Looks for a communicator, and finds out how it runs its ranks.
  void choose_kind() {
    auto registry = open_registry(config, services);
    std::vector<std::string> offers;
    for (int r = 0; r < config.launch.ranks && config.comm.backend == "auto"; ++r)
      offers.push_back(device_offer(config, *registry, r, config.launch.ranks));
    const plugins::host::PluginDescription& chosen =
        choose_communicator(config, place, *registry, common_offer(offers));
    check_elastic(config, chosen);
    if (in_one_process(chosen)) {
      registry->log_rejections();
      kind = Kind::kThreads;
      meeting.backend = chosen.name;
      meeting.registry = std::move(registry);
      return;
    }
    kind = chosen.communicator->ranks == RT_RANKS_MPI ? Kind::kMpi : Kind::kProcesses;
    if (config.launch.min_ranks > 0) devices.emplace(config, services, *registry);
  }

  void join_processes() {
    if (started_by_mpi(place)) end_with_parent();
    share = share_of(place);
    apply(share);
    // A connection to each other rank, and its own.
    system::require_descriptors(
        kOwnFiles + static_cast<uint64_t>(place.world_size) - 1,
        "rank " + std::to_string(place.rank) + " of " + std::to_string(place.world_size));
    waiting = meet_or_say_why(config.comm, place, meeting);
    meeting.names =
        watch::RankNames(exchange_hosts(*waiting, meeting.prefix, place.rank, place.world_size,
                                        seconds(config.comm.init_timeout_s)));
    plugins::host::HostServices offered = services;
    offer_store(offered, waiting, meeting.prefix);
    meeting.registry = find_plugins(config, offered, place.local_rank);
    meeting.backend = agree_on_backend(config, meeting, *waiting, place);
  }

  // A device takes all processors that it may run on; a quota it does not see. Deterministic runs
  // take one thread.
  void run_alone(const std::function<void(Rank&)>& body) {
    Rank rank = make_rank(config, meeting, {});
    if (rank.config.device.threads == 0 && !config.debug.deterministic &&
        system::processors_in_groups() > 0)
      rank.config.device.threads = system::usable_processors();
    if (const char* const folder = std::getenv(kJobFolderVariable)) rank.job_folder = folder;
    body(rank);
  }
};

Job::Job(config::Config config, plugins::host::HostServices services, bool writes)
    : state_(new State{std::move(config), std::move(services), detect()}) {
  State& s = *state_;
  check_asked_ranks(s.config.launch.ranks, s.place);
  if (writes)
    check_alone(s.config.launch.ranks, s.place, [](const char* name) { return std::getenv(name); });
  if (s.place.world_size > 1) {
    check_elastic(s.config, s.place);
    s.kind = State::Kind::kRank;
  } else if (s.config.launch.ranks > 1) {
    s.choose_kind();
  }
  if (writes)
    check_log_folder(s.config.launch.log_folder,
                     s.kind == State::Kind::kProcesses || std::getenv(kLaunchVariable) != nullptr);
}

Job::~Job() = default;

bool Job::runs_here() const {
  return state_->kind != State::Kind::kProcesses && state_->kind != State::Kind::kMpi;
}

int Job::start_processes(const std::vector<std::string>& arguments) {
  return start(state_->config, arguments, state_->kind == State::Kind::kMpi,
               state_->devices ? &*state_->devices : nullptr);
}

void Job::join() {
  State& s = *state_;
  if (s.kind == State::Kind::kRank) return s.join_processes();
  if (s.kind == State::Kind::kAlone) {
    s.meeting.registry = find_plugins(s.config, s.services, 0);
    return;
  }
  s.meeting.store = std::make_shared<MemoryStore>();
  s.meeting.one_process = true;
  s.share.threads = threads_of(s.config.launch.ranks);
}

// Rank 0 chooses the mesh by times that it measures, and the others read it from the store.
void Job::agree_on_mesh(
    const std::function<config::Parallelism(const Rank&, int world_size)>& choose) {
  State& s = *state_;
  config::Parallelism& p = s.config.parallelism;
  if (!p.search || s.kind == State::Kind::kAlone) return;
  const bool threads = s.kind == State::Kind::kThreads;
  const int world_size = threads ? s.config.launch.ranks : s.place.world_size;
  const std::string key = s.meeting.prefix + "mesh";
  if (s.place.rank == 0) {
    Rank rank = make_rank(s.config, s.meeting, s.place);
    if (rank.config.device.threads == 0) rank.config.device.threads = s.share.threads;
    p = choose(rank, world_size);
    s.meeting.store->set(key, std::to_string(p.tensor) + " " + std::to_string(p.pipeline));
  }
  std::istringstream(s.meeting.store->get(key, seconds(s.config.comm.init_timeout_s), 0)) >>
      p.tensor >> p.pipeline;
  p.data = world_size / (p.tensor * p.pipeline);
  p.search = false;
}

void Job::answer(std::function<int()> questions) {
  state_->meeting.questions = std::move(questions);
}

void Job::agree_on_folder(const std::function<std::string()>& make) {
  State& s = *state_;
  if (!make) return;
  if (s.kind != State::Kind::kRank) {
    s.meeting.run_folder = make();
    return;
  }
  const std::string key = s.meeting.prefix + "run_folder";
  if (s.place.rank == 0) s.meeting.store->set(key, make());
  s.meeting.run_folder = s.waiting->get(key, seconds(s.config.comm.init_timeout_s), 0);
}

int Job::on_each_rank(const std::function<void(Rank&)>& body) {
  State& s = *state_;
  if (s.kind == State::Kind::kAlone) {
    s.run_alone(body);
  } else if (s.kind == State::Kind::kThreads) {
    run_threads(s.config, s.meeting, s.share.threads, body);
  } else {
    try {
      run_one_of(s.config, s.meeting, s.place, s.share.threads, body, nullptr);
      s.meeting.registry->throw_findings();
      return 0;
    } catch (const NumericError& error) {
      // All ranks have this error, or rank 0 says which rank has it, so it is printed once. It is
      // printed before the plugins end: ranks of MPI end together, and mpiexec kills the others
      // when one rank has ended with an error.
      if (s.place.rank == 0) {
        std::fflush(stdout);
        std::fprintf(stderr, "error: %s\n", error.what());
      }
      return static_cast<int>(error.exit_code());
    }
  }
  s.meeting.registry->throw_findings();  // the devices are closed
  return 0;
}

int run_ranks(config::Config config, plugins::host::HostServices services,
              const std::vector<std::string>& arguments, const std::function<void(Rank&)>& body) {
  Job job(std::move(config), std::move(services));
  if (!job.runs_here()) return job.start_processes(arguments);
  job.join();
  return job.on_each_rank(body);
}

}  // namespace runtime::launch
