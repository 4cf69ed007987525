// Communicators made by split: groups of ranks, several at the same time, and the effect of abort
// on one of them.
#include <numeric>
#include <thread>

#include "plugins/conformance/session.h"
#include "rt/sdk/operation.h"

namespace plugins::conformance {
namespace {

using namespace std::chrono_literals;

constexpr Call kSumOfGroup{
    .kind = RT_ALL_REDUCE, .dtype = RT_FLOAT32, .reduction = RT_SUM, .count = 1021};
constexpr Call kGather{.kind = RT_ALL_GATHER, .dtype = RT_FLOAT32, .count = 17};

// The colour or key of every rank, computed from the rank.
std::vector<int32_t> by_rank(int32_t size, const std::function<int32_t(int32_t)>& value) {
  std::vector<int32_t> values;
  for (int32_t rank = 0; rank < size; ++rank) values.push_back(value(rank));
  return values;
}

const auto kRank = [](int32_t rank) { return rank; };
const auto kZero = [](int32_t) { return 0; };

// The sum shows which ranks are in the team, the all-gather shows their order.
void use(Session& session, const std::optional<Team>& team) {
  if (!team) return;
  if (session.claims(kSumOfGroup)) Exchange(session, *team, kSumOfGroup).run();
  if (session.claims(kGather)) Exchange(session, *team, kGather).run();
}

std::optional<Team> split(Session& session, const Team& parent,
                          const std::function<int32_t(int32_t)>& color,
                          const std::function<int32_t(int32_t)>& key) {
  return session.split(parent, by_rank(parent.size(), color), by_rank(parent.size(), key));
}

void even_and_odd(Session& session) {
  use(session, split(
                   session, session.team(), [](int32_t r) { return r % 2; }, kRank));
  use(session, session.team());
}

void reversed(Session& session) {
  use(session, split(session, session.team(), kZero, [](int32_t r) { return -r; }));
}

void equal_keys(Session& session) { use(session, split(session, session.team(), kZero, kZero)); }

void without_some(Session& session) {
  use(session, split(
                   session, session.team(), [](int32_t r) { return r == 0 ? -1 : 5; }, kRank));
  use(session, split(
                   session, session.team(), [](int32_t) { return -1; }, kRank));
}

void nested(Session& session) {
  const auto reverse = split(session, session.team(), kZero, [](int32_t r) { return -r; });
  const auto halves = split(
      session, *reverse, [](int32_t r) { return r / 2; }, kRank);
  use(session, halves);
  use(session, split(session, *halves, kRank, kZero));  // teams of one rank
  use(session, reverse);
}

// Works of a communicator and of one split from it, in flight together and finished in another
// order.
void parent_and_child(Session& session) {
  session.require(kSumOfGroup);
  const auto child = split(
      session, session.team(), [](int32_t r) { return r % 2; }, kRank);
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (int i = 0; i < 16; ++i) {
    exchanges.push_back(
        std::make_unique<Exchange>(session, i % 2 ? *child : session.team(), kSumOfGroup));
    exchanges.back()->start();
  }
  for (auto it = exchanges.rbegin(); it != exchanges.rend(); ++it) (*it)->finish();
}

// Two communicators, each used by a thread of its own.
void concurrent(Session& session) {
  session.require(kSumOfGroup);
  if (session.flags() & RT_COMM_SINGLE_THREAD) throw Skip("all calls must come from one thread");
  const auto first = split(session, session.team(), kZero, kRank);
  const auto second = split(session, session.team(), kZero, [](int32_t r) { return -r; });
  Session other(session.world());  // collects the findings of the other thread
  std::exception_ptr error;
  std::thread thread([&] {
    try {
      for (int i = 0; i < 50; ++i) Exchange(other, *second, kSumOfGroup).run();
    } catch (...) {
      error = std::current_exception();
    }
  });
  try {
    for (int i = 0; i < 50; ++i) Exchange(session, *first, kSumOfGroup).run();
  } catch (...) {
    thread.join();
    throw;
  }
  thread.join();
  if (error) std::rethrow_exception(error);
  for (const std::string& finding : other.findings()) session.expect(false, finding);
}

// A thread aborts the communicator while the rank waits for one that never arrives.
void expect_wakes(Session& session, const Team& child) {
  Exchange pending(session, child, {.kind = RT_BARRIER});
  pending.start();
  std::thread aborter([&] {
    std::this_thread::sleep_for(20ms);
    error_of([&] { child.communicator->abort(); });
  });
  const auto error = error_of([&] { pending.wait(session.world().timeout); });
  aborter.join();
  // The rank may notice the abort of another rank first, as a lost connection.
  session.expect(
      error && (error->code() == RT_ERROR_ABORTED || error->code() == RT_ERROR_COMMUNICATION),
      "an aborted wait ended with " + (error ? std::string(error->what()) : "success"));
}

void abort_wakes(Session& session) {
  if (!(session.flags() & RT_COMM_ABORT_WAKES)) throw Skip("abort is not claimed to wake waiters");
  session.require_ranks(2);
  const auto child = split(session, session.team(), kZero, kRank);
  const bool stays_away = session.world().rank == session.world().size - 1;
  if (!stays_away) expect_wakes(session, *child);
  Exchange(session, session.team(), {.kind = RT_BARRIER}).run();  // the parent still works
  if (stays_away) child->communicator->abort();
  const auto error = error_of([&] {
    Exchange later(session, *child, {.kind = RT_BARRIER});
    later.start();
    later.wait(session.world().timeout);
  });
  session.expect(
      error && error->code() == RT_ERROR_ABORTED,
      "a call after abort ended with " + (error ? std::string(error->what()) : "success"));
  session.expect(child->communicator->asynchronous_error().has_value(),
                 "an aborted communicator has no asynchronous error");
  use(session, session.team());
}

}  // namespace

std::vector<CommunicatorCase> split_cases() {
  return {
      {"split/even_and_odd", even_and_odd},
      {"split/reversed", reversed},
      {"split/equal_keys", equal_keys},
      {"split/without_some", without_some},
      {"split/nested", nested},
      {"split/parent_and_child", parent_and_child},
      {"split/concurrent", concurrent},
      {"abort", abort_wakes},
  };
}

}  // namespace plugins::conformance
