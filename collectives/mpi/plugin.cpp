// The plugin `mpi`: the classes that the table of the communicator interface (rt/communicator.h) is
// made from, over MPI.
#include <memory>
#include <string>
#include <string_view>

#include "collectives/shared_memory/option.h"
#include "process.h"
#include "rt/device.h"
#include "rt/sdk/communicator_table.h"
#include "status.h"

namespace collectives::mpi {
namespace {

using rt::sdk::Deadline;
using rt::sdk::Error;
using rt::sdk::format;

constexpr rt_option_spec kFinalizeTimeout = {
    sizeof(rt_option_spec), RT_OPTION_INTEGER, "finalize_timeout_s", "600",
    "how long the end of an undisturbed run waits for the other ranks"};
constexpr rt_option_spec kLargestCount = {
    sizeof(rt_option_spec), RT_OPTION_INTEGER, "largest_count", "1073741824",
    "most elements that one call of MPI is given; larger collectives are cut"};
constexpr rt_option_spec kRing = {
    sizeof(rt_option_spec), RT_OPTION_STRING, "ring", "auto",
    "large all-reduces go around a ring: on, off, auto (where there are several hosts)"};
constexpr const rt_option_spec* kOptions[] = {&kFinalizeTimeout, &kLargestCount, &kRing,
                                              &collectives::shared_memory::kOption};

Limits limits_of(const rt_comm_options& options) {
  using Ring = Limits::Ring;
  const std::string_view ring = rt::sdk::option_text(options, kRing);
  if (ring != "auto" && ring != "on" && ring != "off") {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                format("option ring is '%s'; expected on, off or auto", std::string(ring).c_str()));
  }
  Limits limits;
  limits.largest_count = static_cast<uint64_t>(rt::sdk::option_number(options, kLargestCount));
  limits.ring = ring == "auto" ? Ring::kBetweenHosts : ring == "on" ? Ring::kAlways : Ring::kNever;
  limits.shared_memory = collectives::shared_memory::is_on(options);
  return limits;
}

// Finds out which ranks have not joined. MPI cannot tell, so each rank sets a key in the key-value
// store of the program that loaded the plugin (rt_host.kv_set), if that offers one.
class Marks {
 public:
  Marks(const rt_host& host, const rt_comm_options& options) : host_(host), options_(options) {
    if (!available()) return;
    host_.kv_set(host_.context, key(options.rank).c_str(), "here", 4, nullptr);
  }

  std::string missing() const {
    if (!available()) return "the host has no store that could tell which";
    std::string ranks;
    for (int32_t rank = 0; rank < options_.world_size; ++rank) {
      char mark[8];
      uint64_t bytes = sizeof(mark);
      if (host_.kv_get(host_.context, key(rank).c_str(), mark, &bytes, 0, nullptr) == RT_OK) {
        continue;
      }
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    }
    return ranks.empty() ? "all have started, not all have arrived" : ranks;
  }

 private:
  bool available() const { return host_.kv_set != nullptr && host_.kv_get != nullptr; }
  std::string key(int32_t rank) const {
    return std::string(options_.prefix) + "/mpi/" + std::to_string(rank);
  }
  const rt_host& host_;
  const rt_comm_options& options_;
};

[[noreturn]] void refuse_world(const rt_comm_options& options, const std::string& found) {
  const int32_t ranks = options.world_size;
  throw Error(RT_ERROR_UNAVAILABLE,
              format("rank %d of %d was asked for, but %s; start the ranks with `mpirun -n %d "
                     "runtime train ...` (under Slurm srun --mpi=pmix) or `runtime train ... "
                     "--nproc %d`, with the launcher of %s, which this plugin was built with",
                     options.rank, ranks, found.c_str(), ranks, ranks, library().c_str()),
              RT_SCOPE_PROCESS);
}

void check_world(const rt_comm_options& options, const Team& world) {
  if (world.rank == options.rank && world.size == options.world_size) return;
  refuse_world(options, format("MPI says that this is rank %d of %d", world.rank, world.size));
}

// Throws if the ranks create different communicators at the same time, which MPI_Comm_dup would
// pair wrongly. Each rank hashes the key prefix of its communicator (rt_comm_options.prefix,
// FNV-1a), and the smallest and the largest hash of all ranks must be equal.
void check_prefix(MPI_Comm comm, const std::string& prefix) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : prefix) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  uint64_t bounds[2] = {hash, ~hash};
  check(MPI_Allreduce(MPI_IN_PLACE, bounds, 2, MPI_UINT64_T, MPI_MIN, comm), "MPI_Allreduce");
  if (bounds[0] == ~bounds[1]) return;
  throw Error(RT_ERROR_INVALID_ARGUMENT,
              "the ranks create different communicators at the same time; this one's prefix is '" +
                  prefix + "'. Create them in the same order on every rank");
}

// Runs `make` on the parent's thread. `make` is collective over `parent` and returns the
// communicator that it has made. Returns false if the deadline has passed first.
bool derive(ProgressThread& parent, std::function<MPI_Comm()> make, const Limits& limits,
            Deadline deadline, std::shared_ptr<ProgressThread>& result) {
  // Shared with the task, which may run after the deadline.
  const auto made = std::make_shared<Team>();
  const auto task = [made, limits, make = std::move(make)] {
    const MPI_Comm comm = make();
    if (comm != MPI_COMM_NULL) *made = team_of(comm, limits);
  };
  if (!parent.wait(parent.submit(task, true), deadline)) return false;
  if (made->comm != MPI_COMM_NULL) result = ProgressThread::start(*made);
  return true;
}

// A started collective: what the host knows as rt_work.
class Work {
 public:
  Work(std::shared_ptr<ProgressThread> progress, const rt_collective& call)
      : progress_(std::move(progress)), call_(progress_->submit(call)) {}
  ~Work() {
    try {
      progress_->release(call_);
    } catch (const std::exception&) {  // no memory is left: the thread's end releases the call
    }
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  bool poll() { return progress_->wait(call_, Deadline::min()); }
  void wait(Deadline deadline) {
    if (progress_->wait(call_, deadline)) return;
    throw Error(RT_ERROR_TIMEOUT, "not all ranks came to the collective, or it went on too long");
  }

 private:
  const std::shared_ptr<ProgressThread> progress_;
  const std::shared_ptr<Call> call_;
};

// Starting a send or receive never waits for another call, so a group needs no special treatment.
class Communicator : public rt::sdk::CommunicatorBase {
 public:
  Communicator(std::shared_ptr<Process> process, std::shared_ptr<ProgressThread> progress)
      : process_(std::move(process)), progress_(std::move(progress)) {}
  ~Communicator() {
    if (!progress_->close()) process_->give_up();
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Work* enqueue(const rt_collective& call) {
    check_call(progress_->team(), call);
    return new Work(progress_, call);
  }
  std::unique_ptr<Communicator> split(int32_t color, int32_t key, Deadline deadline);
  void abort() { progress_->abort(); }
  std::optional<Error> failure() { return progress_->failure(); }

 private:
  const std::shared_ptr<Process> process_;
  const std::shared_ptr<ProgressThread> progress_;
};

std::unique_ptr<Communicator> Communicator::split(int32_t color, int32_t key, Deadline deadline) {
  const Team team = progress_->team();
  const auto divide = [comm = team.comm, color, key] {
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(comm, color < 0 ? MPI_UNDEFINED : color, key, &part), "MPI_Comm_split");
    return part;
  };
  std::shared_ptr<ProgressThread> progress;
  if (!derive(*progress_, divide, team.limits, deadline, progress)) {
    progress_->abort();  // other ranks would pair the next collective with their split
    throw Error(RT_ERROR_TIMEOUT, "not all ranks came to the split in time", RT_SCOPE_COMMUNICATOR);
  }
  return progress ? std::make_unique<Communicator>(process_, std::move(progress)) : nullptr;
}

struct Instance {
  static rt_comm_properties properties();
  static std::vector<rt_comm_capability> capabilities();
  std::unique_ptr<Communicator> create(const rt_host& host, const rt_comm_options& options);

  std::shared_ptr<Process> process = {};  // kept until shutdown, because MPI starts only once
};

rt_comm_properties Instance::properties() {
  rt_comm_properties p{};
  // The thread of the communicator makes the calls of MPI.
  p.flags = RT_COMM_BACKGROUND;
  rt::sdk::copy_text(p.device_plugin, device_plugin());
  rt::sdk::copy_text(p.description, "processes started by mpirun; " + library());
  p.ranks = RT_RANKS_MPI;
  p.priority = 100;
  // On one machine, while the ranks also compute; idle ones do four times as much.
  p.latency_ns = 5'000;
  p.bytes_per_second = 4'000'000'000;
  return p;
}

std::vector<rt_comm_capability> Instance::capabilities() {
  const auto all = rt::sdk::all_collectives(rt::sdk::kAllDtypes, 1u << RT_MEMORY_PINNED_HOST);
  std::vector<rt_comm_capability> rows = all;
  if (device_plugin().empty()) return rows;
  for (const int32_t kind : kDeviceKinds) {
    rt_comm_capability row = all[static_cast<std::size_t>(kind) - 1];
    if (kind == RT_ALL_REDUCE) row.dtypes = kDeviceSums;
    row.reductions = kDeviceReductions;
    row.memory_kinds = 1u << RT_MEMORY_DEVICE;
    rows.push_back(row);
  }
  return rows;
}

std::unique_ptr<Communicator> Instance::create(const rt_host& host,
                                               const rt_comm_options& options) {
  const Deadline deadline = rt::sdk::deadline_in(options.timeout_ns);
  Limits limits = limits_of(options);
  const Start start{options.interface == nullptr ? "" : options.interface,
                    std::chrono::seconds(rt::sdk::option_number(options, kFinalizeTimeout))};
  if (options.world_size > 1 && !has_launcher()) {
    refuse_world(options, "no launcher of MPI has started this process");
  }
  const Marks marks(host, options);
  try {
    process = Process::join(start, deadline);
    limits.device_memory = !device_plugin().empty();
    ProgressThread& world = process->world();
    check_world(options, world.team());
    const auto duplicate = [prefix = std::string(options.prefix)] {
      MPI_Comm comm = MPI_COMM_NULL;
      check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
      check_prefix(comm, prefix);
      return comm;
    };
    std::shared_ptr<ProgressThread> progress;
    if (!derive(world, duplicate, limits, deadline, progress)) {
      // Other ranks may still call MPI_Comm_dup, which would be paired with this rank's next one.
      world.abort();
      process->give_up();
      throw Error(RT_ERROR_TIMEOUT, "MPI_Comm_dup did not begin in time", RT_SCOPE_PROCESS);
    }
    return std::make_unique<Communicator>(process, std::move(progress));
  } catch (const Error& e) {
    if (e.code() != RT_ERROR_TIMEOUT) throw;
    throw Error(e.code(),
                std::string(e.what()) + "; these ranks did not join in time: " + marks.missing(),
                e.scope());
  }
}

constinit const rt_communicator_api kApi =
    rt::sdk::communicator_table<Instance, Communicator, Work>();

rt::sdk::PluginDescription description() {
  return {.name = "mpi",
          .vendor = "runtime",
          .version = RUNTIME_PLUGIN_VERSION " (" + library() + ")",
          .build_id = "mpi-" + library(),
          .description = "ranks are processes, started by mpirun",
          .communicator = &kApi,
          .options = kOptions};
}

}  // namespace
}  // namespace collectives::mpi

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  using collectives::mpi::Instance;
  return rt::sdk::make_plugin<Instance>(collectives::mpi::description, host, negotiation, plugin,
                                        error);
}
