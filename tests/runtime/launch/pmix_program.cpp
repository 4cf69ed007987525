// The program of each rank of pmix_test; it prints "rank <r> passed" or the fault.
#include <pmix.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "runtime/launch/environment.h"
#include "runtime/launch/pmix_store.h"
#include "runtime/launch/poll.h"
#include "runtime/launch/rendezvous.h"

namespace {

using namespace std::chrono_literals;
using runtime::launch::PmixStore;

constexpr auto kLong = 30s;  // reached only by a test that fails

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

template <class Kind, class Action>
void require_error(const Action& action, const std::string& part) {
  try {
    action();
  } catch (const Kind& error) {
    return require(std::string(error.what()).find(part) != std::string::npos, error.what());
  }
  throw std::runtime_error("no error that says " + part);
}

// Uses keys with the number of a rank, as communicators do.
void meet(PmixStore& store, int rank, int size) {
  store.set("run/world/" + std::to_string(rank), "address of " + std::to_string(rank));
  for (int other = 0; other < size; ++other)
    require(store.get("run/world/" + std::to_string(other), kLong) ==
                "address of " + std::to_string(other),
            "address of rank " + std::to_string(other));
}

// A key that any rank may set is asked for before it exists; the last value is empty.
void alarm(PmixStore& store, int rank, int size) {
  if (rank == size - 1) {
    for (int other = 0; other < size - 1; ++other)
      store.get("run/asked/" + std::to_string(other), kLong);
    store.set("run/alarm", std::string("\0first\xff", 7));
    for (int other = 0; other < size - 1; ++other)
      store.get("run/told/" + std::to_string(other), kLong);
    return store.set("run/empty", "");
  }
  require(!store.try_get("run/alarm"), "nobody has set it");
  store.set("run/asked/" + std::to_string(rank), "1");
  require(store.get("run/alarm", kLong) == std::string("\0first\xff", 7), "the value");
  require(!store.try_get("run/empty"), "nobody has set the empty one");
  store.set("run/told/" + std::to_string(rank), "1");
  require(store.get("run/empty", kLong).empty(), "the empty value");
}

// In a smaller group a rank has another number than in the job.
void other_number(PmixStore& store, int rank, int size) {
  const std::string key = "run/group/" + std::to_string((rank + 1) % size);
  store.set(key, "set by " + std::to_string(rank));
  for (int other = 0; other < size; ++other)
    require(store.get("run/group/" + std::to_string((other + 1) % size), kLong) ==
                "set by " + std::to_string(other),
            "the key of another number");
}

void errors(PmixStore& store, int size) {
  using runtime::CommunicationError;
  require_error<runtime::launch::StoreTimeout>([&] { store.get("run/never/0", 50ms); }, "never");
  require_error<CommunicationError>([&] { store.set(std::string(1000, 'k'), ""); }, "too long");
  require_error<CommunicationError>([&] { PmixStore wrong(size + 1); },
                                    "has started " + std::to_string(size) + " processes");
}

void run(int rank, int size) {
  // Rank 0 is late; a rank that asks for its keys must not wait longer than its own deadline.
  if (rank == 0) std::this_thread::sleep_for(1s);
  PmixStore store(size);
  if (rank == 1)
    require_error<runtime::launch::StoreTimeout>([&] { store.get("run/late/0", 100ms); }, "late");
  require(join(store, rank, size, kLong) == "run", "a namespace is fresh");
  meet(store, rank, size);
  alarm(store, rank, size);
  other_number(store, rank, size);
  errors(store, size);
  // The keys of a rank vanish when it ends, so no rank may end while another one still asks for
  // keys.
  require(PMIx_Fence(nullptr, 0, nullptr, 0) == PMIX_SUCCESS, "fence");
}

}  // namespace

int main() {
  try {
    const auto ranks = runtime::launch::detect();
    run(ranks.rank, ranks.world_size);
    std::printf("rank %d passed\n", ranks.rank);
    return 0;
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
    return 1;
  }
}
