// The table of launchers' variables, and the checks that they agree with each other.
#include "runtime/launch/environment.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "runtime/error.h"

namespace runtime::launch {

namespace {

// The variables of one launcher. They are used if `marker` is set; then `rank` and `world_size`
// must be set too. A row whose `optional` is true is used only if `world_size` is set as well; one
// with `per_node` only if that variable is not set or 1, and `world_size` is not 1.
struct Launcher {
  const char* name;
  const char* marker;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_size;  // a number, or Slurm's list over nodes: "2(x3),1"
  const char* node;        // index into such a list; "" if local_size is a number
  bool binds;
  bool optional = false;
  const char* nodes = "";     // without local_size: over so many nodes the ranks are divided
  const char* per_node = "";  // processes that are wanted on each node
};

// The launchers document these variables: mpirun(1) of Open MPI 4.1, Hydra's wiki, MVAPICH2's
// guide, jsrun(1), flux-environment(7), intro_pals(1), srun(1), torchrun's manual, the PMIx
// standard, Kubernetes on Indexed Jobs. SLURM_STEP_NUM_TASKS is used and not SLURM_NTASKS, because
// a batch script has the latter too.
constexpr Launcher kLaunchers[] = {
    {"runtime --nproc", "RUNTIME_RANK", "RUNTIME_RANK", "RUNTIME_WORLD_SIZE", "RUNTIME_LOCAL_RANK",
     "RUNTIME_LOCAL_SIZE", "", false},
    {"torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "",
     false},
    {kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "", true},
    {"MPICH's mpiexec", "MPI_LOCALNRANKS", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS", "", true},
    {"MVAPICH2's mpirun_rsh", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", "", true},
    {"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE",
     "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE", "", true},
    {"Flux", "FLUX_TASK_RANK", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", "", "",
     true, false, /*nodes=*/"FLUX_JOB_NNODES"},
    {"PALS", "PALS_RANKID", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE", "",
     true, /*optional=*/true},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID", true},
    {"a PMI launcher", "PMI_RANK", "PMI_RANK", "PMI_SIZE", "", "", "", true},
    {"a PMIx launcher", "PMIX_RANK", "PMIX_RANK", "RUNTIME_WORLD_SIZE", "RUNTIME_LOCAL_RANK",
     "RUNTIME_LOCAL_SIZE", "", true},
    {"RANK and WORLD_SIZE", "RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "",
     false},
    {"an operator for torchrun", "PET_NODE_RANK", "PET_NODE_RANK", "PET_NNODES", "", "", "", false,
     /*optional=*/true, "", /*per_node=*/"PET_NPROC_PER_NODE"},
    // The job's manifest says how many pods there are.
    {"an Indexed Job of Kubernetes", "JOB_COMPLETION_INDEX", "JOB_COMPLETION_INDEX", "WORLD_SIZE",
     "", "", "", false, /*optional=*/true},
};

// A variable by which a process can see that it is one of several, although no row of kLaunchers
// says which one. Kubernetes documents JOB_COMPLETION_INDEX, torchrun's manual PET_* (the defaults
// of its options), sbatch(1) SLURM_*, flux-environment(7) FLUX_*, MVAPICH2's guide MV2_*.
struct Trace {
  const char* variable;
  const char* alone;  // its value in a process that is alone; nullptr: no value says so
  const char* of;     // who sets it
  const char* remedy;
};

constexpr char kByVariables[] = "set RANK and WORLD_SIZE for each process";
constexpr char kBySize[] = "set WORLD_SIZE to the number of pods, and MASTER_ADDR and MASTER_PORT";
constexpr char kByTorchrun[] = "start it with torchrun --no-python runtime ...";
constexpr char kBySrun[] = "start it with srun";
constexpr char kByMpiexec[] = "start it with mpiexec of Open MPI or MPICH";
constexpr char kByFlux[] = "start it with flux run";

constexpr Trace kTraces[] = {
    {"JOB_COMPLETION_INDEX", nullptr, "an Indexed Job or a JobSet of Kubernetes", kBySize},
    {"PET_NNODES", "1", "an operator for torchrun", kByTorchrun},
    {"PET_NPROC_PER_NODE", "1", "an operator for torchrun", kByTorchrun},
    {"PET_NODE_RANK", "0", "an operator for torchrun", kByTorchrun},
    {"SLURM_NTASKS", "1", "Slurm", kBySrun},
    {"SLURM_NPROCS", "1", "Slurm", kBySrun},
    {"SLURM_JOB_NUM_NODES", "1", "Slurm", kBySrun},
    {"SLURM_NNODES", "1", "Slurm", kBySrun},
    {"FLUX_JOB_SIZE", "1", "Flux", kByFlux},
    {"FLUX_TASK_RANK", "0", "Flux", kByFlux},
    {"MV2_COMM_WORLD_SIZE", "1", "MVAPICH2", kByMpiexec},
    {"MV2_COMM_WORLD_RANK", "0", "MVAPICH2", kByMpiexec},
    {"JSM_NAMESPACE_SIZE", "1", "jsrun", kByMpiexec},
    {"PALS_RANKID", "0", "PALS", kByMpiexec},
    {"HOROVOD_SIZE", "1", "horovodrun", kByVariables},
    {"AWS_BATCH_JOB_NUM_NODES", "1", "AWS Batch", kByVariables},
    {"OMPI_COMM_WORLD_SIZE", "1", "Open MPI, without OMPI_COMM_WORLD_RANK", kByMpiexec},
    {"PMI_SIZE", "1", "a PMI launcher, without PMI_RANK", kByMpiexec},
    {"WORLD_SIZE", "1", "a launcher, without RANK", kByVariables},
    {"LOCAL_WORLD_SIZE", "1", "a launcher, without RANK", kByVariables},
    {"RUNTIME_WORLD_SIZE", "1", "a launcher, without RUNTIME_RANK",
     "set RUNTIME_RANK for each process"},
};

constexpr int kMostRanksNamed = 1 << 20;

bool set(const GetVariable& get, const char* name) { return *name != '\0' && get(name) != nullptr; }

std::optional<int> parse(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

[[noreturn]] void refuse(const Launcher& launcher, const char* name, const std::string& value,
                         const std::string& expected) {
  throw ConfigurationError(std::string("rank from the environment (") + launcher.name + ": " +
                           launcher.marker + " is set): " + name + " = '" + value + "', expected " +
                           expected + "; start all ranks with one launcher, or unset " +
                           launcher.marker + " for a run of one rank");
}

int number(const Launcher& launcher, const GetVariable& get, const char* name, int low, int high) {
  const char* text = get(name);
  const std::string range = "a number from " + std::to_string(low) + " to " + std::to_string(high);
  if (text == nullptr) refuse(launcher, name, "", range);
  const std::optional<int> value = parse(text);
  if (!value || *value < low || *value > high) refuse(launcher, name, text, range);
  return *value;
}

// Returns the entry of `node` in a list such as "2(x3),1": nodes 0 to 2 have 2, and node 3 has 1.
std::optional<int> entry_of_node(std::string_view list, int node) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    const size_t times = item.find("(x");
    if (times != item.npos && !item.ends_with(')')) return std::nullopt;
    const auto value = parse(item.substr(0, times));
    const auto count = times == item.npos ? std::optional<int>(1)
                                          : parse(item.substr(times + 2, item.size() - times - 3));
    if (!value || !count || *count < 1) return std::nullopt;
    if (node < *count) return value;
    node -= *count;
  }
  return std::nullopt;
}

int local_size(const Launcher& launcher, const GetVariable& get, int world_size) {
  if (*launcher.node == '\0') return number(launcher, get, launcher.local_size, 1, world_size);
  const int node = number(launcher, get, launcher.node, 0, kMostRanksNamed);
  const std::string list = get(launcher.local_size);
  const std::optional<int> size = entry_of_node(list, node);
  if (!size || *size < 1 || *size > world_size) {
    refuse(launcher, launcher.local_size, list,
           std::string("the tasks of each node such as '2(x3),1' with an entry for ") +
               launcher.node + " = " + std::to_string(node));
  }
  return *size;
}

void read_local(const Launcher& launcher, const GetVariable& get, RankEnvironment& result) {
  const char* const size = *launcher.local_size == '\0' ? launcher.nodes : launcher.local_size;
  const bool has_rank = set(get, launcher.local_rank), has_size = set(get, size);
  if (!has_rank && !has_size) return;
  if (!has_rank || !has_size) {
    refuse(launcher, has_rank ? size : launcher.local_rank, "",
           std::string("a number, because ") + (has_rank ? launcher.local_rank : size) + " is set");
  }
  if (*launcher.local_size == '\0') {
    // Divided evenly, or so that this rank has a place.
    const int nodes = number(launcher, get, size, 1, kMostRanksNamed);
    result.local_rank = number(launcher, get, launcher.local_rank, 0, result.world_size - 1);
    result.local_size = std::max((result.world_size + nodes - 1) / nodes, result.local_rank + 1);
    return;
  }
  result.local_size = local_size(launcher, get, result.world_size);
  result.local_rank = number(launcher, get, launcher.local_rank, 0, result.local_size - 1);
}

RankEnvironment read_variables(const Launcher& launcher, const GetVariable& get) {
  RankEnvironment result;
  result.source = launcher.name;
  result.marker = launcher.marker;
  result.launcher_binds = launcher.binds;
  result.world_size = number(launcher, get, launcher.world_size, 1, kMostRanksNamed);
  result.rank = number(launcher, get, launcher.rank, 0, result.world_size - 1);
  read_local(launcher, get, result);
  return result;
}

void check_expected(const GetVariable& get, const RankEnvironment& found) {
  if (!set(get, kExpectedVariable)) return;
  const std::string expected = get(kExpectedVariable);
  if (parse(expected) == found.world_size) return;
  throw ConfigurationError(
      "mpiexec was to start " + expected + " ranks; its variables tell this process of " +
      std::to_string(found.world_size) +
      (found.source.empty() ? " (no known variable is set)" : " (those of " + found.source + ")") +
      "; set launch.mpiexec to the mpiexec of Open MPI or MPICH");
}

}  // namespace

RankEnvironment detect(const GetVariable& get) {
  const auto launcher =
      std::find_if(std::begin(kLaunchers), std::end(kLaunchers), [&](const Launcher& l) {
        const auto is_one = [&](const char* name) { return std::strcmp(get(name), "1") == 0; };
        if (!set(get, l.marker) || (l.optional && !set(get, l.world_size))) return false;
        if (*l.per_node == '\0') return true;
        return !is_one(l.world_size) && (!set(get, l.per_node) || is_one(l.per_node));
      });
  RankEnvironment result =
      launcher == std::end(kLaunchers) ? RankEnvironment() : read_variables(*launcher, get);
  check_expected(get, result);
  return result;
}

RankEnvironment detect() {
  return detect([](const char* name) { return std::getenv(name); });
}

void check_asked_ranks(int asked, const RankEnvironment& found) {
  if (asked == 1 || found.source.empty() || asked == found.world_size) return;
  const std::string ranks = std::to_string(asked);
  throw ConfigurationError(
      "--nproc " + ranks + " (launch.ranks) asks for " + ranks +
      " ranks, but this process is rank " + std::to_string(found.rank) + " of " +
      std::to_string(found.world_size) + ", as " + found.source + " says (" + found.marker +
      " is set); let one of the two start the ranks: " + "leave out --nproc, or unset " +
      found.marker);
}

void check_alone(int asked, const RankEnvironment& found, const GetVariable& get) {
  if (asked != 1 || !found.source.empty()) return;
  std::string seen;
  const Trace* first = nullptr;
  for (const Trace& t : kTraces) {
    const char* value = get(t.variable);
    if (value == nullptr || *value == '\0' || (t.alone != nullptr && !std::strcmp(value, t.alone)))
      continue;
    if (first == nullptr) first = &t;
    seen += std::string(seen.empty() ? "" : ", ") + t.variable + " = '" + value + "'";
  }
  if (first == nullptr) return;
  throw ConfigurationError(
      "this process would run alone, although variables tell of several processes: " + seen + " (" +
      first->of + "); expected is a launcher that says which rank this is: " + first->remedy +
      ", or start ranks here with --nproc N; for a run of this process alone set RUNTIME_RANK=0 "
      "and RUNTIME_WORLD_SIZE=1, or unset these variables");
}

std::string reason_of(const RankEnvironment& found) {
  if (found.source.empty() || found.source == kLaunchers[0].name) return "";
  return "; this process takes itself for rank " + std::to_string(found.rank) + " of " +
         std::to_string(found.world_size) + ", because " + found.marker + " is set (" +
         found.source + "): unset " + found.marker + " if it is left over from something else";
}

std::map<std::string, std::string> variables_of(const RankEnvironment& rank) {
  const Launcher& own = kLaunchers[0];
  return {{own.rank, std::to_string(rank.rank)},
          {own.world_size, std::to_string(rank.world_size)},
          {own.local_rank, std::to_string(rank.local_rank)},
          {own.local_size, std::to_string(rank.local_size)}};
}

}  // namespace runtime::launch
