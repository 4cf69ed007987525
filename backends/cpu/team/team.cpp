// Starts the threads of a team, gives them their shares, and lets them wait for each other.
#include "backends/cpu/team/team.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "backends/cpu/team/processors.h"
#include "rt/sdk/error.h"

namespace backends::cpu {
namespace {

// How long a thread polls before it sleeps. OpenMP's variable OMP_WAIT_POLICY chooses as for other
// programs.
std::chrono::nanoseconds polling_of_environment() {
  using std::chrono::microseconds;
  const char* text = std::getenv("OMP_WAIT_POLICY");
  const std::string_view policy = text == nullptr ? "" : text;
  if (policy == "PASSIVE" || policy == "passive") return microseconds(0);
  return microseconds(policy == "ACTIVE" || policy == "active" ? 100'000 : 200);
}

}  // namespace

Team::Team(int threads, bool pins)
    : threads_(threads),
      pins_(pins),
      polling_(polling_of_environment()),
      members_(static_cast<size_t>(threads)) {}

Team::~Team() {
  region_.task = nullptr;
  begin(static_cast<int>(others_.size()) + 1);
  for (std::thread& other : others_) other.join();
}

Team::Place& Team::place() {
  thread_local Place own;
  return own;
}

void Team::start() {
  if (started_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  others_.reserve(members_.size() - 1);
  const std::vector<Processor> processors =
      pins_ ? processors_of_this_thread() : std::vector<Processor>{};
  try {
    while (static_cast<int>(others_.size()) < threads_ - 1) {
      const int share = static_cast<int>(others_.size()) + 1;
      const auto place = static_cast<size_t>(share) % std::max<size_t>(1, processors.size());
      const auto own = processors.empty() ? std::nullopt : std::optional(processors[place]);
      others_.emplace_back([this, share, own] {
        if (own) pin_to(*own);
        serve(share);
      });
    }
  } catch (const std::system_error& e) {
    throw rt::sdk::Error(
        RT_ERROR_OUT_OF_MEMORY,
        rt::sdk::format("cpu:0: %d threads asked for, the system gives %d (%s); lower "
                        "device.threads, or raise the limits (ulimit -v, -u)",
                        threads_, static_cast<int>(others_.size()) + 1, e.code().message().c_str()),
        RT_SCOPE_DEVICE);
  }
  started_.store(true, std::memory_order_release);
}

// Takes an open share. Returns false if the other thread has taken it.
bool Team::take(Member& member, uint32_t number) {
  uint32_t open = 2 * number;
  return member.open.compare_exchange_strong(open, open + 1, std::memory_order_acq_rel);
}

// The life of one of the other threads.
void Team::serve(int share) {
  pthread_setname_np(pthread_self(), ("cpu team " + std::to_string(share)).c_str());
  Member& own = members_[static_cast<size_t>(share)];
  Place& here = place();
  here.team = this;
  here.inside = true;
  while (true) {
    here.number = own.go.wait_past(here.number, polling_);
    // A region cannot end before a share that was taken, so what it says can be read now.
    if (!take(own, here.number)) continue;
    if (region_.task == nullptr) return;
    run_share(share);
    own.arrived.send(here.number);
  }
}

void Team::run_share(int share) {
  Place& here = place();
  here.parts = region_.parts;
  for (here.part = share; here.part < region_.parts; here.part += region_.shares)
    region_.task(region_.data);
}

// Lets the other threads begin their shares.
void Team::begin(int shares) {
  for (int share = 1; share < shares; ++share) {
    Member& other = members_[static_cast<size_t>(share)];
    other.open.store(2 * ++other.number, std::memory_order_relaxed);
    other.go.send(other.number);
  }
}

void Team::wait_for(int shares) {
  for (int share = 1; share < shares; ++share) {
    Member& other = members_[static_cast<size_t>(share)];
    other.arrived.wait_for(other.number, polling_);
  }
}

void Team::run(const Region& region, bool together) {
  Place& here = place();
  const Place outside = here;
  const std::lock_guard lock(mutex_);
  region_ = region;
  here.team = this;
  here.inside = true;
  begin(region.shares);
  run_share(0);
  for (int share = 1; share < region.shares && !together; ++share) {
    Member& other = members_[static_cast<size_t>(share)];
    if (!take(other, other.number)) continue;
    run_share(share);
    other.arrived.send(other.number);
  }
  wait_for(region.shares);
  here = outside;
}

void Team::run_parts(int parts, Task task, void* data) {
  Place& here = place();
  const int shares = here.inside ? 1 : std::min(parts, threads_);
  if (shares > 1) return run({task, data, parts, shares}, false);
  const Place outside = here;
  here.parts = parts;
  for (here.part = 0; here.part < parts; ++here.part) task(data);
  here = outside;
}

void Team::run_together(int parts, Task task, void* data) {
  Place& here = place();
  if (parts > 1 && !here.inside) {
    parts = std::min(parts, threads_);
    return run({task, data, parts, parts}, true);
  }
  const Place outside = here;
  here.part = 0;
  here.parts = 1;
  task(data);
  here = outside;
}

void Team::meet() {
  Place& here = place();
  if (here.parts <= 1) return;
  Team& team = *here.team;
  if (here.part == 0) {
    team.wait_for(here.parts);
    team.begin(here.parts);
    return;
  }
  Member& own = team.members_[static_cast<size_t>(here.part)];
  own.arrived.send(here.number);
  here.number = own.go.wait_past(here.number, team.polling_);
}

int Team::part() { return place().part; }

int Team::parts() { return place().parts; }

bool Team::in_region() { return place().inside; }

Team* Team::current() { return place().team; }

Team::Use::Use(Team& team) : before_(place().team) {
  team.start();
  place().team = &team;
}

Team::Use::~Use() { place().team = before_; }

}  // namespace backends::cpu
