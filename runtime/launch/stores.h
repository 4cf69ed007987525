// Selection of the store in which the ranks of a run meet.
#ifndef RUNTIME_LAUNCH_STORES_H_
#define RUNTIME_LAUNCH_STORES_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/launch/environment.h"
#include "runtime/launch/store.h"
#include "runtime/launch/store_server.h"

namespace runtime::launch {

// A store that can be opened.
struct StoreChoice {
  enum class Kind { kMemory, kFile, kRedis, kPmix, kTcp, kTorch } kind = Kind::kMemory;
  std::string address = {};   // a folder, or host:port
  bool leads = false;         // of kTcp: this is rank 0, which keeps the store
  bool kept_here = false;     // of kTcp: the launcher on this machine keeps the store for rank 0
  std::string secret = {};    // of kTcp
  bool own_folder = false;    // the folder in TMPDIR for this user's runs on this machine
  std::string run_hint = {};  // for join(): what the launcher's variables distinguish jobs by
};

// The values of comm.rendezvous that something is written for.
std::vector<std::string> written_rendezvous();

// Chooses by comm.rendezvous and comm.rendezvous_address. "auto" takes the first of these that
// exists: what the launcher of this program names (RUNTIME_RENDEZVOUS), the address, a
// folder on this machine if all ranks are on it, the launcher's PMIx, at MASTER_ADDR and
// MASTER_PORT the store of torchrun's agent, or else one that rank 0 keeps there. "env" does the
// same but ignores the address. A run of one rank needs none of them. Throws ConfigurationError
// that says what can be given.
StoreChoice choose_store(const std::string& rendezvous, const std::string& address,
                         const RankEnvironment& ranks, const GetVariable& get);

// Keeps the store for rank 0, where a launcher lives longer than rank 0 does. Returns null if
// `address` is not that of a store that rank 0 keeps. Throws as TcpStore::serve does.
std::unique_ptr<StoreServer> keep_store(const std::string& address, const GetVariable& get);

// Return whether this build has the store; the other kinds are always available.
bool has_redis();
bool has_pmix();

// Opens the store; `come`: the time in which the rank that keeps it must have come. Throws
// ConfigurationError for a kind that this build does not have, and CommunicationError if opening
// fails.
std::shared_ptr<Store> open_store(const StoreChoice& choice, int world_size,
                                  std::chrono::nanoseconds come = std::chrono::seconds(60));

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_STORES_H_
