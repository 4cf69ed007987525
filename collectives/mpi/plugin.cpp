// The plugin `mpi`: implements the communicator interface (the table of C functions in
// rt/communicator.h) over MPI.
#include "rt/plugin.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>

#include "collectives/shared_memory/option.h"
#include "process.h"
#include "rt/communicator.h"
#include "rt/device.h"
#include "rt/sdk/communicator.h"
#include "status.h"

using rt::sdk::Error;
using rt::sdk::format;
using rt::sdk::guard;
namespace mpi = collectives::mpi;
using collectives::mpi::Call;
using collectives::mpi::Clock;
using collectives::mpi::Owner;
using collectives::mpi::Process;
using collectives::mpi::Team;

struct rt_communicator {
  std::shared_ptr<Process> process;
  std::shared_ptr<Owner> owner;
  int open_groups = 0;
};

struct rt_work {
  std::shared_ptr<Owner> owner;
  std::shared_ptr<Call> call;
};

namespace {

struct Instance {
  rt_plugin view{};
  std::string version, build_id;
  const rt_host* host = nullptr;
  std::shared_ptr<Process> process;  // kept until shutdown, because MPI starts only once
};

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

int64_t number_of(const rt_comm_options& options, const rt_option_spec& spec) {
  const std::string_view text = rt::sdk::option_text(options, spec);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 1 << 30) {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                format("option %s is '%s'; expected a whole number from 1 to 1073741824", spec.key,
                       std::string(text).c_str()));
  }
  return value;
}

mpi::Limits limits_of(const rt_comm_options& options) {
  using Ring = mpi::Limits::Ring;
  const std::string_view ring = rt::sdk::option_text(options, kRing);
  if (ring != "auto" && ring != "on" && ring != "off") {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                format("option ring is '%s'; expected on, off or auto", std::string(ring).c_str()));
  }
  mpi::Limits limits;
  limits.largest_count = static_cast<uint64_t>(number_of(options, kLargestCount));
  limits.ring = ring == "auto" ? Ring::kBetweenHosts : ring == "on" ? Ring::kAlways : Ring::kNever;
  limits.shared_memory = collectives::shared_memory::is_on(options);
  return limits;
}

Clock::time_point deadline_in(int64_t timeout_ns) {
  // A timeout is cut to one year, so that adding it to the current time cannot overflow.
  constexpr int64_t kYear = int64_t{365} * 24 * 3600 * 1000000000;
  return Clock::now() + std::chrono::nanoseconds(std::clamp<int64_t>(timeout_ns, 0, kYear));
}

rt_status properties(void*, rt_comm_properties* result, rt_error* error) {
  return guard(error, [&] {
    rt_comm_properties p{};
    // The thread of the communicator makes the calls of MPI.
    p.flags = RT_COMM_BACKGROUND;
    rt::sdk::copy_text(p.device_plugin, mpi::device_plugin());
    rt::sdk::copy_text(p.description, "processes started by mpirun; " + mpi::library());
    p.ranks = RT_RANKS_MPI;
    p.priority = 100;
    // On one machine: small all-reduces go through shared memory at 8 GB/s, and MPI copies large
    // messages at 4.
    p.latency_ns = 5'000;
    p.bytes_per_second = 4'000'000'000;
    rt::sdk::write_output(result, p);
  });
}

rt_status capabilities(void*, rt_comm_capability* rows, uint32_t* count, rt_error* error) {
  return guard(error, [&] {
    const uint32_t room = *count;
    rt::sdk::list_all_collectives(rt::sdk::kAllDtypes, 1u << RT_MEMORY_PINNED_HOST, rows, count);
    if (mpi::device_plugin().empty()) return;
    for (const int32_t kind : mpi::kDeviceKinds) {
      if (rows != nullptr && *count >= room) return;
      if (rows != nullptr) {
        const uint64_t dtypes = kind == RT_ALL_REDUCE ? mpi::kDeviceSums : rt::sdk::kAllDtypes;
        rt_comm_capability row{};
        row.collective = kind;
        row.dtypes = dtypes;
        row.reductions = mpi::kDeviceReductions;
        row.memory_kinds = 1u << RT_MEMORY_DEVICE;
        row.flags = RT_COMM_IN_PLACE;
        rt::sdk::write_element(rows, *count, row);
      }
      ++*count;
    }
  });
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
                     options.rank, ranks, found.c_str(), ranks, ranks, mpi::library().c_str()),
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
  mpi::check(MPI_Allreduce(MPI_IN_PLACE, bounds, 2, MPI_UINT64_T, MPI_MIN, comm), "MPI_Allreduce");
  if (bounds[0] == ~bounds[1]) return;
  throw Error(RT_ERROR_INVALID_ARGUMENT,
              "the ranks create different communicators at the same time; this one's prefix is '" +
                  prefix + "'. Create them in the same order on every rank");
}

// Runs `make` on the parent's thread. `make` is collective over `parent` and returns the
// communicator that it has made. Returns false if the deadline has passed first.
bool derive(Owner& parent, std::function<MPI_Comm()> make, const mpi::Limits& limits,
            Clock::time_point deadline, std::shared_ptr<Owner>& result) {
  // Shared with the task, which may run after the deadline.
  const auto made = std::make_shared<Team>();
  const auto task = [made, limits, make = std::move(make)] {
    const MPI_Comm comm = make();
    if (comm != MPI_COMM_NULL) *made = mpi::team_of(comm, limits);
  };
  if (!parent.wait(parent.submit(task, true), deadline)) return false;
  if (made->comm != MPI_COMM_NULL) result = Owner::start(*made);
  return true;
}

rt_status create(void* self, const rt_comm_options* options, rt_communicator** result,
                 rt_error* error) {
  return guard(error, [&] {
    rt::sdk::check_input(options);
    auto& instance = *static_cast<Instance*>(self);
    const auto deadline = deadline_in(options->timeout_ns);
    mpi::Limits limits = limits_of(*options);
    const mpi::Start start{options->interface == nullptr ? "" : options->interface,
                           std::chrono::seconds(number_of(*options, kFinalizeTimeout))};
    if (options->world_size > 1 && !mpi::has_launcher()) {
      refuse_world(*options, "no launcher of MPI has started this process");
    }
    const Marks marks(*instance.host, *options);
    auto communicator = std::make_unique<rt_communicator>();
    try {
      instance.process = Process::join(start, deadline);
      limits.device_memory = !mpi::device_plugin().empty();
      Owner& world = instance.process->world();
      check_world(*options, world.team());
      const auto duplicate = [prefix = std::string(options->prefix)] {
        MPI_Comm comm = MPI_COMM_NULL;
        mpi::check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
        check_prefix(comm, prefix);
        return comm;
      };
      if (!derive(world, duplicate, limits, deadline, communicator->owner)) {
        // Other ranks may still call MPI_Comm_dup, which would be paired with this rank's next one.
        world.abort();
        instance.process->give_up();
        throw Error(RT_ERROR_TIMEOUT, "MPI_Comm_dup did not begin in time", RT_SCOPE_PROCESS);
      }
    } catch (const Error& e) {
      if (e.code() != RT_ERROR_TIMEOUT) throw;
      throw Error(e.code(),
                  std::string(e.what()) + "; these ranks did not join in time: " + marks.missing(),
                  e.scope());
    }
    communicator->process = instance.process;
    *result = communicator.release();
  });
}

rt_status split(rt_communicator* parent, int32_t color, int32_t key, int64_t timeout_ns,
                rt_communicator** result, rt_error* error) {
  return guard(error, [&] {
    const Team team = parent->owner->team();
    const auto divide = [comm = team.comm, color, key] {
      MPI_Comm part = MPI_COMM_NULL;
      mpi::check(MPI_Comm_split(comm, color < 0 ? MPI_UNDEFINED : color, key, &part),
                 "MPI_Comm_split");
      return part;
    };
    std::shared_ptr<Owner> owner;
    if (!derive(*parent->owner, divide, team.limits, deadline_in(timeout_ns), owner)) {
      parent->owner->abort();  // other ranks would pair the next collective with their split
      throw Error(RT_ERROR_TIMEOUT, "not all ranks came to the split in time",
                  RT_SCOPE_COMMUNICATOR);
    }
    *result = owner ? new rt_communicator{parent->process, std::move(owner)} : nullptr;
  });
}

void destroy(rt_communicator* communicator) {
  if (!communicator->owner->close()) communicator->process->give_up();
  delete communicator;
}

rt_status group_begin(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] { ++communicator->open_groups; });
}

// Starting a send or receive never waits for another call, so a group needs no special treatment.
rt_status group_end(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] {
    if (communicator->open_groups == 0) {
      throw Error(RT_ERROR_INVALID_ARGUMENT, "group_end without group_begin");
    }
    --communicator->open_groups;
  });
}

rt_status enqueue(rt_communicator* communicator, const rt_collective* given, rt_work** work,
                  rt_error* error) {
  return guard(error, [&] {
    const rt_collective call = rt::sdk::read_input(given);
    mpi::check_call(communicator->owner->team(), call);
    *work = new rt_work{communicator->owner, communicator->owner->submit(call)};
  });
}

rt_status work_poll(rt_work* work, rt_error* error) {
  return guard(error, [&] {
    return work->owner->wait(work->call, Clock::time_point::min()) ? RT_OK : RT_NOT_READY;
  });
}

rt_status work_wait(rt_work* work, int64_t timeout_ns, rt_error* error) {
  return guard(error, [&] {
    if (work->owner->wait(work->call, deadline_in(timeout_ns))) return;
    throw Error(RT_ERROR_TIMEOUT, "not all ranks came to the collective, or it went on too long");
  });
}

void work_destroy(rt_work* work) {
  work->owner->release(work->call);
  delete work;
}

rt_status abort(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] { communicator->owner->abort(); });
}

rt_status asynchronous_error(rt_communicator* communicator, rt_error* error) {
  return guard(error, [&] {
    if (const auto failure = communicator->owner->failure()) throw Error(*failure);
  });
}

constexpr rt_communicator_api kApi = {sizeof(rt_communicator_api),
                                      RT_COMMUNICATOR_API_VERSION,
                                      properties,
                                      capabilities,
                                      create,
                                      split,
                                      destroy,
                                      group_begin,
                                      group_end,
                                      enqueue,
                                      work_poll,
                                      work_wait,
                                      work_destroy,
                                      abort,
                                      asynchronous_error};

const rt_option_spec* const* list_options(void*, uint32_t* count) {
  *count = std::size(kOptions);
  return kOptions;
}

void shutdown(void* self) { delete static_cast<Instance*>(self); }

}  // namespace

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  return guard(error, [&] {
    rt::sdk::negotiate(negotiation, "mpi");
    auto* self = new Instance;
    self->host = host;
    self->version = RUNTIME_PLUGIN_VERSION " (" + mpi::library() + ")";
    self->build_id = "mpi-" + mpi::library();
    self->view = {sizeof(rt_plugin),
                  0,
                  self,
                  "mpi",
                  "runtime",
                  self->version.c_str(),
                  self->build_id.c_str(),
                  "ranks are processes, started by mpirun",
                  rt::sdk::get_communicator_api<kApi>,
                  list_options,
                  shutdown};
    *plugin = &self->view;
  });
}
