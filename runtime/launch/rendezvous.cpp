// The handshake of ranks over a store: notices with nonces, answers, and errors that reach all.
#include "runtime/launch/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "plugins/host/text.h"
#include "runtime/launch/nonce.h"
#include "runtime/launch/poll.h"
#include "runtime/system/host_name.h"
#include "runtime/watch/rank_names.h"

namespace runtime::launch {
namespace {

// What a process publishes about itself: rank 0 under "current", the others under the run of rank
// 0.
struct Notice {
  std::string nonce;
  int world_size = 0;
  std::string process;  // "process 123 on host a"
};

constexpr int kMostRanks = 4096;  // bounds an absurd number from the store

constexpr const char* kNoticeMagic = "rt-notice-1";

std::string write(const Notice& notice) {
  return std::string(kNoticeMagic) + " " + notice.nonce + " " + std::to_string(notice.world_size) +
         " " + notice.process;
}

// Returns nothing if the store holds anything but a notice there.
std::optional<Notice> read(const std::optional<std::string>& text) {
  std::istringstream in(text.value_or(""));
  std::string magic;
  Notice notice;
  in >> magic >> notice.nonce >> notice.world_size;
  if (!in || magic != kNoticeMagic || !is_nonce(notice.nonce)) return std::nullopt;
  std::getline(in >> std::ws, notice.process);
  return notice;
}

// Longer than the processes of a job start apart from each other, and short enough for a user to
// wait.
constexpr auto kFarewell = std::chrono::seconds(1);

// What rank 0 writes for one process, under a key with that process's nonce. Any other value is the
// reason why the run has failed.
constexpr const char* kGo = "go";

// A rank waits in the store for the key that it needs, and looks at all others when that has not
// come within a time that grows from the first to the last of these.
constexpr std::chrono::nanoseconds kShortTurn = std::chrono::milliseconds(10),
                                   kLongTurn = std::chrono::milliseconds(250);

class Turns {
 public:
  explicit Turns(std::chrono::nanoseconds timeout)
      : end_(Clock::now() + std::min<std::chrono::nanoseconds>(timeout, std::chrono::years(10))) {}
  bool over() const { return Clock::now() >= end_; }
  std::chrono::nanoseconds next() {
    const auto left = std::max<std::chrono::nanoseconds>(end_ - Clock::now(), {});
    return std::min(std::exchange(turn_, std::min(2 * turn_, kLongTurn)), left);
  }

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end_;
  std::chrono::nanoseconds turn_ = kShortTurn;
};

std::string process_name() {
  return "process " + std::to_string(::getpid()) + " on " + system::host_name();
}

class Handshake {
 public:
  Handshake(Store& store, int rank, int world_size, std::chrono::nanoseconds timeout,
            const std::string& run_hint)
      : store_(store),
        rank_(rank),
        timeout_(timeout),
        current_((run_hint.empty() ? "" : run_hint + "/") + "current"),
        own_{make_nonce(), world_size, process_name()},
        largest_(world_size) {}

  std::string lead();
  std::string follow();

 private:
  static std::string run_of(const Notice& leader) { return "run-" + leader.nonce; }
  static std::string rank_key(const Notice& leader, int rank) {
    return run_of(leader) + "/joined/" + std::to_string(rank);
  }
  static std::string reply_key(const Notice& leader, const Notice& process) {
    return run_of(leader) + "/reply/" + process.nonce;
  }
  static std::string seen_key(const Notice& leader, const Notice& process) {
    return run_of(leader) + "/seen/" + process.nonce;
  }
  static std::string failed_key(const Notice& leader) { return run_of(leader) + "/failed"; }

  std::string where() const { return "rendezvous in " + store_.description() + ": "; }
  std::string missing_text(const std::vector<int>& missing) const;
  std::string doubled_text(int rank, const std::string& one, const std::string& other) const;
  std::vector<int> missing() const;

  void look_at(int rank, const std::optional<Notice>& notice);
  void look_for_failures();
  void look_at_all();
  void tell_all(const std::string& verdict);
  [[noreturn]] void fail(const std::string& text, std::chrono::nanoseconds farewell = kFarewell);

  void register_under(const Notice& leader);
  bool answered(const Notice& leader);
  void look_for_double(const Notice& leader);
  std::string deadline_text() const;

  Store& store_;
  const int rank_;
  const std::chrono::nanoseconds timeout_;
  const std::string current_;
  const Notice own_;
  // On rank 0: the ranks that have come, and the largest world size that any rank has given.
  std::map<int, Notice> joined_;
  int largest_;
  std::set<int> told_;           // on rank 0: those that know that it has seen them
  std::vector<Notice> leaders_;  // on other ranks: the rank 0s they registered under, in order
};

std::string Handshake::missing_text(const std::vector<int>& missing) const {
  return where() + watch::RankNames().of(missing) + " of " + std::to_string(own_.world_size) +
         (missing.size() == 1 ? " has" : " have") + " not come within " +
         plugins::host::seconds_text(timeout_) +
         "; look at the output of the missing ranks, check that all ranks were given this "
         "rendezvous and the same job, or raise comm.init_timeout_s";
}

std::string Handshake::doubled_text(int rank, const std::string& one,
                                    const std::string& other) const {
  return where() + "two processes say that they are rank " + std::to_string(rank) + ": " + one +
         " and " + other +
         "; give each process a rank of its own, and jobs that run at the same time different "
         "values of RUNTIME_RUN_ID";
}

std::vector<int> Handshake::missing() const {
  std::vector<int> ranks;
  for (int rank = 1; rank < largest_; ++rank)
    if (!joined_.contains(rank)) ranks.push_back(rank);
  return ranks;
}

void Handshake::tell_all(const std::string& verdict) {
  for (const auto& [rank, notice] : joined_) store_.set(reply_key(own_, notice), verdict);
}

// Other ranks may come at this moment and would wait in vain, so rank 0 stays for `farewell` to
// pass the error on to them too.
void Handshake::fail(const std::string& text, std::chrono::nanoseconds farewell) {
  store_.set(failed_key(own_), text);
  tell_all(text);
  poll_until(farewell, [&] {
    for (int rank = 1; rank < largest_; ++rank) {
      const std::optional<Notice> notice = read(store_.try_get(rank_key(own_, rank)));
      if (!notice) continue;
      joined_.insert_or_assign(rank, *notice);
      store_.set(reply_key(own_, *notice), text);
    }
    return missing().empty();
  });
  throw CommunicationError(text);
}

void Handshake::look_at(int rank, const std::optional<Notice>& notice) {
  if (!notice) return;
  const auto [entry, is_new] = joined_.try_emplace(rank, *notice);
  if (notice->nonce != entry->second.nonce)
    fail(doubled_text(rank, entry->second.process, notice->process));
  if (!is_new) return;
  largest_ = std::min(std::max(largest_, notice->world_size), kMostRanks);
  if (notice->world_size != own_.world_size) {
    fail(where() + "rank 0 (" + own_.process + ") says that there are " +
         std::to_string(own_.world_size) + " ranks, rank " + std::to_string(rank) + " (" +
         notice->process + ") says " + std::to_string(notice->world_size) +
         "; start all ranks with the same number of ranks");
  }
}

void Handshake::look_for_failures() {
  if (const auto text = store_.try_get(failed_key(own_))) fail(*text);
  const std::optional<Notice> leader = read(store_.try_get(current_));
  if (!leader || leader->nonce == own_.nonce) return;
  const std::string text = doubled_text(0, own_.process, leader->process);
  store_.set(failed_key(*leader), text);
  fail(text);
}

// Those that have come learn that a rank 0 is there.
void Handshake::look_at_all() {
  for (int rank = 1; rank < own_.world_size; ++rank)
    look_at(rank, read(store_.try_get(rank_key(own_, rank))));
  for (const auto& [rank, notice] : joined_)
    if (told_.insert(rank).second) store_.set(seen_key(own_, notice), "");
  look_for_failures();
}

// Where all come in time, rank 0 waits once for each of the others, and answers it once.
std::string Handshake::lead() {
  store_.set(current_, write(own_));
  Turns turns(timeout_);
  for (std::vector<int> left = missing(); !left.empty(); left = missing()) {
    if (turns.over()) fail(missing_text(left), std::chrono::seconds(0));
    const int next = left.front();
    look_at(next, read(store_.wait_for(rank_key(own_, next), turns.next())));
    if (!joined_.contains(next)) look_at_all();
  }
  look_for_failures();
  tell_all(kGo);
  return run_of(own_);
}

void Handshake::register_under(const Notice& leader) {
  if (!leaders_.empty() && leaders_.back().nonce == leader.nonce) return;
  store_.set(rank_key(leader, rank_), write(own_));
  leaders_.push_back(leader);
}

// Returns true if rank 0 lets all ranks continue.
bool Handshake::answered(const Notice& leader) {
  const std::string reply = store_.try_get(reply_key(leader, own_)).value_or("");
  if (reply != kGo && !reply.empty()) throw CommunicationError(reply);
  return reply == kGo;
}

void Handshake::look_for_double(const Notice& leader) {
  const std::optional<Notice> other = read(store_.try_get(rank_key(leader, rank_)));
  if (!other || other->nonce == own_.nonce) return;
  const std::string text = doubled_text(rank_, own_.process, other->process);
  store_.set(failed_key(leader), text);
  throw CommunicationError(text);
}

// A rank 0 that has seen this rank is alive, so other ranks are missing.
std::string Handshake::deadline_text() const {
  if (leaders_.empty()) return missing_text({0});
  const Notice& leader = leaders_.back();
  if (!store_.try_get(seen_key(leader, own_))) {
    const auto end = store_.try_get(failed_key(leader));
    return missing_text({0}) + "; what is in the store says that " + leader.process +
           " was rank 0 of " + std::to_string(leader.world_size) + " and does not answer rank " +
           std::to_string(rank_) + ": an earlier run, or one that is complete" +
           (end ? ", which ended with: " + *end : "");
  }
  std::vector<int> missing;
  for (int rank = 1; rank < own_.world_size; ++rank)
    if (!read(store_.try_get(rank_key(leader, rank)))) missing.push_back(rank);
  return missing_text(missing.empty() ? std::vector<int>{0} : missing);
}

// Where rank 0 comes in time, this waits once for its announcement and once for its answer. What an
// earlier run has left in the store may be taken for an announcement, so each turn looks for a
// newer one.
std::string Handshake::follow() {
  Turns turns(timeout_);
  do {
    const std::optional<Notice> newest =
        read(leaders_.empty() ? store_.wait_for(current_, turns.next()) : store_.try_get(current_));
    if (!newest && leaders_.empty()) continue;
    if (newest) register_under(*newest);
    store_.wait_for(reply_key(leaders_.back(), own_), turns.next());
    for (const Notice& leader : leaders_)
      if (answered(leader)) return run_of(leader);
    for (const Notice& leader : leaders_) look_for_double(leader);
  } while (!turns.over());
  const std::string text = deadline_text();
  if (!leaders_.empty() && store_.try_get(seen_key(leaders_.back(), own_)))
    store_.set(failed_key(leaders_.back()), text);
  throw CommunicationError(text);
}

}  // namespace

std::string join(Store& store, int rank, int world_size, std::chrono::nanoseconds timeout,
                 const std::string& run_hint) {
  if (world_size == 1 || store.fresh()) return "run";
  Handshake handshake(store, rank, world_size, timeout, run_hint);
  return rank == 0 ? handshake.lead() : handshake.follow();
}

std::vector<std::string> exchange_hosts(Store& store, const std::string& prefix, int rank,
                                        int world_size, std::chrono::nanoseconds timeout) {
  const std::string key = prefix + "hosts";
  store.set(key + "/" + std::to_string(rank), system::host_name());
  if (rank == 0) {
    std::string all;
    for (int r = 0; r < world_size; ++r)
      all += store.get(key + "/" + std::to_string(r), timeout, r) + '\n';
    store.set(key, all);
  }
  std::vector<std::string> hosts;
  std::istringstream lines(store.get(key, timeout, 0));
  for (std::string host; std::getline(lines, host);) hosts.push_back(host);
  return hosts;
}

}  // namespace runtime::launch
