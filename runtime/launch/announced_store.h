// A store of rank 0 that another store announces.
#ifndef RUNTIME_LAUNCH_ANNOUNCED_STORE_H_
#define RUNTIME_LAUNCH_ANNOUNCED_STORE_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/launch/store.h"

namespace runtime::launch {

// Returns a store that rank 0 (`leads`) serves on a free port. Rank 0 sets its addresses, port and
// a new secret under one key of `through`, and the others read that within `come`. For stores that
// lose what a rank has set when it ends, or that have to be asked again and again, as PMIx. The
// result keeps `through` open. Throws CommunicationError.
std::shared_ptr<Store> open_announced(const std::shared_ptr<Store>& through, bool leads,
                                      std::chrono::nanoseconds come);

// Returns the addresses of this machine under which others may reach it: of all interfaces that are
// up, without loopback and link-local ones.
std::vector<std::string> own_addresses();

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_ANNOUNCED_STORE_H_
