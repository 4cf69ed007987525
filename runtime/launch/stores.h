// Which store the ranks of a run meet in.
#ifndef RUNTIME_LAUNCH_STORES_H_
#define RUNTIME_LAUNCH_STORES_H_

#include <memory>
#include <string>

#include "runtime/launch/environment.h"
#include "runtime/launch/store.h"

namespace runtime::launch {

struct StoreChoice {
  enum class Kind { kMemory, kFile, kRedis, kPmix } kind = Kind::kMemory;
  std::string address = {};   // folder, host:port
  bool own_folder = false;    // made for this user's runs on this machine, in the temporary folder
  std::string run_hint = {};  // for join(): what the launcher's variables tell jobs apart by
};

// From comm.rendezvous and comm.rendezvous_address. "auto" takes the first of these that is there:
// what our own launcher says (RUNTIME_RENDEZVOUS), the address, the launcher's PMIx, a folder of
// this machine if all ranks are on it; "env" does not look at the address. A run of one rank needs
// nothing. ConfigurationError says what could be given.
StoreChoice choose_store(const std::string& rendezvous, const std::string& address,
                         const RankEnvironment& ranks, const GetVariable& get);

// Whether this build has it; the other kinds always are there.
bool has_redis();
bool has_pmix();

// ConfigurationError for a kind that this build does not have, else CommunicationError.
std::shared_ptr<Store> open_store(const StoreChoice& choice, int world_size);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_STORES_H_
