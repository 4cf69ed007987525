// Several works in flight, groups, deadlines, and calls that must be refused.
#include <atomic>
#include <thread>

#include "plugins/conformance/session.h"
#include "plugins/host/text.h"
#include "rt/sdk/operation.h"

namespace plugins::conformance {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Exchanges = std::vector<std::unique_ptr<Exchange>>;

constexpr Call kSum{.kind = RT_ALL_REDUCE, .dtype = RT_FLOAT32, .reduction = RT_SUM, .count = 1021};
constexpr auto kLate = 200ms;    // how long a rank is late while others must wait for it
constexpr auto kAbsent = 500ms;  // how long a rank is late while the wait of others must time out

void barrier(Session& session) { Exchange(session, session.team(), {.kind = RT_BARRIER}).run(); }

void add(Session& session, Exchanges& exchanges, const Call& call) {
  exchanges.push_back(std::make_unique<Exchange>(session, session.team(), call));
}

void finish_last_first(Exchanges& exchanges) {
  for (auto it = exchanges.rbegin(); it != exchanges.rend(); ++it) (*it)->finish();
}

// Starts collectives of different sizes and types, and finishes the last one first.
void many_in_flight(Session& session) {
  Exchanges exchanges;
  for (uint64_t i = 0; i < 64; ++i) {
    Call call = kSum;
    call.count = i * 677 % 5003;
    for (const rt_dtype dtype : {RT_FLOAT64, RT_INT64, RT_BFLOAT16}) {
      call.dtype = i % 4 == static_cast<uint64_t>(dtype) % 4 ? dtype : call.dtype;
    }
    if (!session.claims(call)) call.dtype = RT_FLOAT32;
    session.require(call);
    add(session, exchanges, call);
  }
  for (auto& exchange : exchanges) exchange->start();
  finish_last_first(exchanges);
}

void kinds_in_flight(Session& session) {
  Exchanges exchanges;
  for (uint64_t i = 0; i < 28; ++i) {
    Call call = kSum;
    call.kind = RT_ALL_REDUCE + static_cast<int32_t>(i % 7);
    if (call.kind == RT_SEND) call.kind = RT_BARRIER;
    call.count = 10 + 97 * i;
    if (!has_reduction(call.kind)) call.reduction = 0;
    if (has_root(call.kind)) call.peer = static_cast<int32_t>(i) % session.world().size;
    if (session.claims(call)) add(session, exchanges, call);
  }
  for (auto& exchange : exchanges) exchange->start();
  finish_last_first(exchanges);
}

// Small all-reduces that nobody waits for before the large one and the barrier behind them, while
// one rank comes later than the others.
void small_before_large(Session& session) {
  Call large = kSum;
  large.count = 300'000;
  session.require(large);
  session.require({.kind = RT_BARRIER});
  for (int32_t round = 0; round < 20; ++round) {
    Exchanges exchanges;
    for (uint64_t i = 0; i < 7; ++i) {
      Call small = kSum;
      small.count = 1 + 977 * i;
      add(session, exchanges, small);
    }
    add(session, exchanges, large);
    add(session, exchanges, {.kind = RT_BARRIER});
    if (round % session.world().size == session.world().rank) std::this_thread::sleep_for(1ms);
    for (auto& exchange : exchanges) exchange->start();
    finish_last_first(exchanges);
  }
}

// A collective whose work is freed at once is carried out all the same.
void freed(Session& session) {
  session.require(kSum);
  session.require({.kind = RT_BARRIER});
  if (session.world().device != nullptr) return;
  std::vector<float> send(100, 1), receive(100);
  session.team().communicator->enqueue(host::make_collective(RT_ALL_REDUCE, RT_FLOAT32, send.data(),
                                                             receive.data(), send.size(), RT_SUM));
  barrier(session);
  const auto deadline = Clock::now() + session.world().timeout;
  const auto sum = static_cast<float>(session.world().size);
  for (float& value : receive) {
    while (std::atomic_ref(value).load() != sum && Clock::now() < deadline)
      std::this_thread::yield();
    session.expect(std::atomic_ref(value).load() == sum,
                   "an all-reduce whose work was freed was not carried out");
  }
}

// Completes a work by polling only.
void poll(Session& session) {
  session.require(kSum);
  Exchange exchange(session, session.team(), kSum);
  exchange.start();
  const auto deadline = Clock::now() + session.world().timeout;
  while (!exchange.poll()) {
    if (Clock::now() > deadline) throw std::runtime_error("polling does not complete a work");
    std::this_thread::yield();
  }
  session.expect(exchange.poll(), "a completed work polls as not ready");
  exchange.finish();  // a completed work may be waited for
}

// Each rank in turn arrives late.
void late_barrier(Session& session) {
  session.require({.kind = RT_BARRIER});
  for (int32_t late = 0; late < session.world().size; ++late) {
    const auto begin = Clock::now();  // taken before the late rank sleeps
    barrier(session);
    if (session.world().rank == late) std::this_thread::sleep_for(kLate);
    barrier(session);
    session.expect(Clock::now() - begin >= kLate,
                   rt::sdk::format("a barrier did not wait for rank %d", late));
  }
}

// A receive without a matching send times out, stays pending, and completes once the message is
// sent.
void wait_times_out(Session& session) {
  Call call{.kind = RT_SEND, .dtype = RT_FLOAT32, .count = 100, .peer = 0};
  session.require(call);
  session.require_ranks(2);
  const int32_t rank = session.world().rank;
  const auto begin = Clock::now();  // taken before the sender sleeps
  barrier(session);
  if (rank == 1) {
    std::this_thread::sleep_for(kAbsent);
    Exchange(session, session.team(), call).run();
  }
  if (rank != 0) return;
  call.kind = RT_RECEIVE;
  call.peer = 1;
  Exchange exchange(session, session.team(), call);
  exchange.start();
  const auto error = error_of([&] { exchange.wait(20ms); });
  // If the machine was so slow that the sender may have sent already, the outcome says nothing.
  if (Clock::now() - begin < kAbsent) {
    session.expect(error && error->code() == RT_ERROR_TIMEOUT,
                   "a wait for what nobody has sent ended with " +
                       (error ? std::string(error->what()) : "success"));
  }
  exchange.finish();
}

// Sends and receives of one group, in an order that would block if they ran one after the other.
void exchange_in_group(Session& session, const std::vector<int32_t>& to,
                       const std::vector<int32_t>& from, uint64_t messages) {
  const Call send{.kind = RT_SEND, .dtype = RT_FLOAT32};
  session.require(send);
  session.require({.kind = RT_RECEIVE, .dtype = RT_FLOAT32});
  Exchanges exchanges;
  const auto add_all = [&](int32_t kind, const std::vector<int32_t>& peers) {
    for (const int32_t peer : peers) {
      for (uint64_t i = 0; i < messages; ++i) {
        add(session, exchanges,
            {.kind = kind, .dtype = RT_FLOAT32, .count = 1 + i * 4999 % 20011, .peer = peer});
      }
    }
  };
  add_all(RT_RECEIVE, from);
  add_all(RT_SEND, to);
  host::CommunicatorGroup group(session.team().communicator);
  for (auto& exchange : exchanges) exchange->start();
  group.end();
  finish_last_first(exchanges);
}

void ring(Session& session, uint64_t messages) {
  session.require_ranks(2);
  const int32_t size = session.world().size, rank = session.world().rank;
  exchange_in_group(session, {(rank + 1) % size}, {(rank + size - 1) % size}, messages);
}

void everyone_with_everyone(Session& session) {
  session.require_ranks(2);
  std::vector<int32_t> others;
  for (int32_t rank = 0; rank < session.world().size; ++rank) {
    if (rank != session.world().rank) others.push_back(rank);
  }
  exchange_in_group(session, others, others, 16);
}

void collectives_in_group(Session& session) {
  session.require(kSum);
  Exchanges exchanges;
  for (uint64_t i = 0; i < 8; ++i) {
    Call call = kSum;
    call.count = 1 + 1000 * i;
    add(session, exchanges, call);
  }
  host::CommunicatorGroup group(session.team().communicator);
  for (auto& exchange : exchanges) exchange->start();
  group.end();
  finish_last_first(exchanges);
}

// Makes the same wrong call on every rank. It must fail in enqueue, or at the latest in wait, and
// the communicator must stay usable.
void refused(Session& session, const rt_collective& wrong, const std::string& what) {
  const auto error =
      error_of([&] { session.team().communicator->enqueue(wrong).wait(session.world().timeout); });
  session.expect(error && (error->code() == RT_ERROR_INVALID_ARGUMENT ||
                           error->code() == RT_ERROR_UNSUPPORTED),
                 what + (error ? std::string(" failed with ") + error->what() : " was accepted"));
  session.expect(!session.team().communicator->asynchronous_error(),
                 what + " left an asynchronous error");
  if (session.claims(kSum)) Exchange(session, session.team(), kSum).run();
}

void refuses(Session& session, const char* what, const std::function<void(rt_collective&)>& spoil) {
  std::vector<float> send(16), receive(16);
  rt_collective call =
      host::make_collective(RT_ALL_REDUCE, RT_FLOAT32, send.data(), receive.data(), 1, RT_SUM);
  call.memory_kind = session.memory_kind();
  spoil(call);
  refused(session, call, what);
}

void refuses_peers(Session& session) {
  for (const int32_t peer : {-1, session.world().size, 1 << 30}) {
    for (const int32_t kind : {RT_BROADCAST, RT_REDUCE, RT_SEND, RT_RECEIVE}) {
      const Call claimed{.kind = kind, .dtype = RT_FLOAT32, .reduction = RT_SUM};
      if (!session.claims(claimed)) continue;
      const std::string what =
          rt::sdk::format("%s with peer %d of %d ranks", host::collective_name(kind).c_str(), peer,
                          session.world().size);
      refuses(session, what.c_str(), [&](rt_collective& call) {
        call.kind = kind;
        call.peer = peer;
        if (!has_reduction(kind)) call.reduction = 0;
      });
    }
  }
}

}  // namespace

std::vector<CommunicatorCase> behaviour_cases() {
  return {
      {"in_flight/all_reduce", many_in_flight},
      {"in_flight/kinds", kinds_in_flight},
      {"in_flight/small_before_large", small_before_large},
      {"in_flight/freed", freed},
      {"poll", poll},
      {"barrier", late_barrier},
      {"timeout", wait_times_out},
      {"group/ring", [](Session& s) { ring(s, 1); }},
      {"group/ring_of_many", [](Session& s) { ring(s, 16); }},
      {"group/everyone_with_everyone", everyone_with_everyone},
      {"group/all_reduce", collectives_in_group},
      {"refuses/kind_0", [](Session& s) { refuses(s, "kind 0", [](auto& c) { c.kind = 0; }); }},
      {"refuses/kind_77", [](Session& s) { refuses(s, "kind 77", [](auto& c) { c.kind = 77; }); }},
      {"refuses/dtype", [](Session& s) { refuses(s, "dtype 60", [](auto& c) { c.dtype = 60; }); }},
      {"refuses/reduction",
       [](Session& s) { refuses(s, "reduction 9", [](auto& c) { c.reduction = 9; }); }},
      {"refuses/no_reduction",
       [](Session& s) { refuses(s, "all_reduce by none", [](auto& c) { c.reduction = 0; }); }},
      {"refuses/peer", refuses_peers},
  };
}

}  // namespace plugins::conformance
