// Reads addresses and launchers' variables, and opens the store that they mean.
#include "runtime/launch/stores.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "runtime/launch/announced_store.h"
#include "runtime/launch/file_store.h"
#include "runtime/launch/memory_store.h"
#include "runtime/launch/tcp_store.h"
#include "runtime/launch/torch_store.h"
#include "runtime/row_of.h"
#ifdef RUNTIME_HAS_REDIS
#include "runtime/launch/redis_store.h"
#endif
#ifdef RUNTIME_HAS_PMIX
#include "runtime/launch/pmix_store.h"
#endif

namespace runtime::launch {
namespace {

using Kind = StoreChoice::Kind;

constexpr const char* kFileScheme = "file:";
constexpr const char* kTcpScheme = "tcp://";
constexpr const char* kForms =
    "a folder that all ranks share, tcp://host:port with the host of rank 0 and a free port there, "
    "or host:port of a Redis server";

// Variables that are the same for all ranks of a job and differ between jobs. Each launcher sets
// one of them or more.
constexpr const char* kJobVariables[] = {"RUNTIME_RUN_ID", "TORCHELASTIC_RUN_ID", "MASTER_ADDR",
                                         "MASTER_PORT",    "SLURM_JOB_ID",        "SLURM_STEP_ID",
                                         "PMIX_NAMESPACE"};

std::string run_hint(const GetVariable& get) {
  std::string hint;
  for (const char* name : kJobVariables) {
    if (const char* value = get(name)) hint += (hint.empty() ? "" : "-") + std::string(value);
  }
  return hint;
}

std::string text_of(const GetVariable& get, const char* name) {
  const char* const value = get(name);
  return value == nullptr ? "" : value;
}

// Recognises "file:/a", "/a", "./a" and "a/b" as folders, "tcp://host:port" as the store of rank 0,
// "redis://host:port" and "host:port" as Redis.
StoreChoice from_address(const std::string& address, const std::string& source) {
  if (address.starts_with(kFileScheme))
    return {.kind = Kind::kFile, .address = address.substr(std::string(kFileScheme).size())};
  if (address.starts_with(kTcpScheme)) return {.kind = Kind::kTcp, .address = address};
  if (address.starts_with("redis://")) return {.kind = Kind::kRedis, .address = address};
  if (address.find('/') != address.npos || address == "." || address == "..")
    return {.kind = Kind::kFile, .address = address};
  if (address.find(':') != address.npos) return {.kind = Kind::kRedis, .address = address};
  throw ConfigurationError(source + ": got '" + address + "', expected " + kForms +
                           "; write a folder of the working folder as './" + address + "'");
}

// `rendezvous` is the name of `kind` in the configuration.
StoreChoice of_kind(Kind kind, const std::string& rendezvous, const std::string& address,
                    const GetVariable& get) {
  if (!address.empty()) {
    const bool scheme = kind == Kind::kFile && address.starts_with(kFileScheme);
    return scheme ? from_address(address, "") : StoreChoice{.kind = kind, .address = address};
  }
  const std::string said = text_of(get, kRendezvousVariable);
  if (!said.empty()) {
    StoreChoice choice = from_address(said, kRendezvousVariable);
    if (choice.kind == kind) return choice;
  }
  throw ConfigurationError(
      "comm.rendezvous = \"" + rendezvous + "\": comm.rendezvous_address is empty; give it " +
      (kind == Kind::kFile  ? "a folder that all ranks share"
       : kind == Kind::kTcp ? "tcp://host:port with the host of rank 0 and a free port there"
                            : "host:port of a Redis server"));
}

// Under torchrun, as its manual says, TORCHELASTIC_USE_AGENT_STORE tells whether its agent serves
// there or leaves the port to rank 0.
std::optional<StoreChoice> at_master(const GetVariable& get) {
  std::string host = text_of(get, "MASTER_ADDR"), port = text_of(get, "MASTER_PORT");
  if (host.empty()) host = text_of(get, "PET_MASTER_ADDR");
  if (port.empty()) port = text_of(get, "PET_MASTER_PORT");
  if (host.empty() || port.empty()) return std::nullopt;
  const bool bare = host.find(':') != host.npos && !host.starts_with('[');  // an IPv6 address
  const std::string address = (bare ? "[" + host + "]" : host) + ":" + port;
  if (text_of(get, "TORCHELASTIC_USE_AGENT_STORE") != "True")
    return StoreChoice{.kind = Kind::kTcp, .address = kTcpScheme + address};
  if (text_of(get, "RUNTIME_SECRET").empty() && text_of(get, "RUNTIME_SECRET_FILE").empty())
    return StoreChoice{.kind = Kind::kTorch, .address = address};
  throw ConfigurationError(
      "the ranks would meet in torchrun's store at " + address +
      ", which hears ranks without a secret, although there is one (RUNTIME_SECRET or "
      "RUNTIME_SECRET_FILE); set comm.rendezvous_address to tcp://host:port with the host of rank "
      "0 and a free port there, or leave out the secret");
}

// RUNTIME_SECRET, or the first line of the file RUNTIME_SECRET_FILE.
std::string secret_of(const GetVariable& get) {
  const std::string path = text_of(get, "RUNTIME_SECRET_FILE");
  if (path.empty()) return text_of(get, "RUNTIME_SECRET");
  std::string secret;
  std::ifstream file(path, std::ios::binary);
  std::getline(file, secret);
  if (secret.ends_with('\r')) secret.pop_back();
  if (!secret.empty()) return secret;
  throw ConfigurationError("RUNTIME_SECRET_FILE: " + path +
                           " has no secret in its first line, or cannot be read; give the path of "
                           "a file that this user can read on every machine");
}

// torchrun in a step of srun inherits srun's PMIx namespace, which is not that of the ranks. Only
// launchers that start the ranks themselves count, and those are the ones that may bind a rank to
// cores.
bool offers_pmix(const RankEnvironment& ranks, const GetVariable& get) {
  return has_pmix() && ranks.launcher_binds && get("PMIX_NAMESPACE") != nullptr;
}

StoreChoice found(const std::string& address, const RankEnvironment& ranks,
                  const GetVariable& get) {
  const std::string said = text_of(get, kRendezvousVariable);
  if (!said.empty()) return from_address(said, kRendezvousVariable);
  if (!address.empty()) return from_address(address, "comm.rendezvous_address");
  // Before PMIx: Open MPI 5.0.7 cannot be initialised in a process that has used PMIx before.
  if (ranks.local_size == ranks.world_size)
    return {.kind = Kind::kFile,
            .address =
                (std::filesystem::temp_directory_path() / ("runtime-" + std::to_string(::getuid())))
                    .string(),
            .own_folder = true};
  if (offers_pmix(ranks, get)) return {.kind = Kind::kPmix};
  if (const auto choice = at_master(get)) return *choice;
  throw ConfigurationError("no rendezvous for " + std::to_string(ranks.world_size) + " ranks, " +
                           std::to_string(ranks.local_size) +
                           " of them on this machine: set comm.rendezvous_address to " + kForms +
                           (has_pmix() ? ", or start the ranks with mpirun or srun --mpi=pmix"
                                       : "; this build has no PMIx"));
}

// Checks the owner and the mode of the folder, because another user could have made it to pose as a
// rank of the job.
void make_own_folder(const std::string& folder) {
  struct stat information = {};
  const bool made = ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
  if (!made || ::lstat(folder.c_str(), &information) != 0)
    throw CommunicationError("rendezvous: cannot make the folder " + folder + ": " +
                             std::generic_category().message(errno) +
                             "; set TMPDIR or comm.rendezvous_address to a folder of yours");
  if (!S_ISDIR(information.st_mode) || information.st_uid != ::geteuid() ||
      (information.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    throw CommunicationError("rendezvous: " + folder +
                             " is not a folder of this user that only this user can write; remove "
                             "it, or set comm.rendezvous_address to a folder of yours");
}

[[noreturn]] [[maybe_unused]] void not_built(const char* what, const char* package) {
  throw ConfigurationError(
      std::string("comm.rendezvous: this build has no ") + what +
      "; use \"file\" with a folder that all ranks share, or build again where " + package +
      " is installed");
}

// The facts by which a store is chosen.
struct Asked {
  const std::string &rendezvous, &address;
  const RankEnvironment& ranks;
  const GetVariable& get;
};

constexpr Row<StoreChoice (*)(const Asked&)> kRendezvous[] = {
    {"auto", [](const Asked& a) { return found(a.address, a.ranks, a.get); }},
    {"env", [](const Asked& a) { return found("", a.ranks, a.get); }},
    {"file", [](const Asked& a) { return of_kind(Kind::kFile, a.rendezvous, a.address, a.get); }},
    {"redis", [](const Asked& a) { return of_kind(Kind::kRedis, a.rendezvous, a.address, a.get); }},
    {"tcp",
     [](const Asked& a) {
       const bool said = !a.address.empty() || a.get(kRendezvousVariable) != nullptr;
       const auto master = said ? std::nullopt : at_master(a.get);
       const bool kept = master && master->kind == Kind::kTcp;
       return kept ? *master : of_kind(Kind::kTcp, a.rendezvous, a.address, a.get);
     }},
    {"pmix", [](const Asked&) { return StoreChoice{.kind = Kind::kPmix}; }}};

}  // namespace

bool has_redis() {
#ifdef RUNTIME_HAS_REDIS
  return true;
#else
  return false;
#endif
}

bool has_pmix() {
#ifdef RUNTIME_HAS_PMIX
  return true;
#else
  return false;
#endif
}

std::vector<std::string> written_rendezvous() { return names_of_rows(kRendezvous); }

StoreChoice choose_store(const std::string& rendezvous, const std::string& address,
                         const RankEnvironment& ranks, const GetVariable& get) {
  if (ranks.world_size == 1) return {};
  StoreChoice choice =
      find_row("comm.rendezvous", rendezvous, kRendezvous).value({rendezvous, address, ranks, get});
  // These are stores of one job, and MASTER_ADDR may be another name on each machine.
  const bool of_one_job =
      choice.kind == Kind::kTcp || choice.kind == Kind::kTorch || choice.kind == Kind::kPmix;
  if (!of_one_job) choice.run_hint = run_hint(get);
  choice.kept_here = choice.kind == Kind::kTcp && !text_of(get, kStoreKeptVariable).empty() &&
                     choice.address == text_of(get, kRendezvousVariable);
  choice.leads = ranks.rank == 0 && !choice.kept_here;
  if (choice.kind == Kind::kTcp) choice.secret = secret_of(get);
  // If nothing else tells the jobs on this machine apart, their parents do: ranks of one mpiexec
  // have one parent.
  if (choice.own_folder && choice.run_hint.empty())
    choice.run_hint = "parent-" + std::to_string(::getppid());
  return choice;
}

std::unique_ptr<StoreServer> keep_store(const std::string& address, const GetVariable& get) {
  const StoreChoice choice = from_address(address, kRendezvousVariable);
  if (choice.kind != Kind::kTcp) return nullptr;
  return TcpStore::serve({.address = choice.address, .secret = secret_of(get)});
}

std::shared_ptr<Store> open_store(const StoreChoice& choice, [[maybe_unused]] int world_size,
                                  std::chrono::nanoseconds come) {
  switch (choice.kind) {
    case Kind::kMemory:
      return std::make_shared<MemoryStore>();
    case Kind::kFile:
      if (choice.own_folder) make_own_folder(choice.address);
      return std::make_shared<FileStore>(choice.address);
    case Kind::kTcp:
      return std::make_shared<TcpStore>(
          TcpStore::Options{.address = choice.address,
                            .leads = choice.leads,
                            .secret = choice.secret,
                            .come = come,
                            .others = choice.kept_here ? std::vector<std::string>{"localhost"}
                                                       : std::vector<std::string>{}});
    case Kind::kTorch:
      return std::make_shared<TorchStore>(choice.address, come);
    case Kind::kRedis:
#ifdef RUNTIME_HAS_REDIS
      return std::make_shared<RedisStore>(choice.address);
#else
      not_built("Redis", "libhiredis-dev");
#endif
    case Kind::kPmix:
#ifdef RUNTIME_HAS_PMIX
      return open_announced(std::make_shared<PmixStore>(world_size), choice.leads, come);
#else
      not_built("PMIx", "libpmix-dev");
#endif
  }
  throw ConfigurationError("comm.rendezvous: unknown kind of store");
}

}  // namespace runtime::launch
