// Checks the data of every collective with every type and reduction, and of large calls.
#include <algorithm>

#include "plugins/conformance/session.h"
#include "plugins/host/text.h"
#include "rt/sdk/operation.h"

namespace plugins::conformance {
namespace {

constexpr int32_t kKinds[] = {RT_ALL_REDUCE, RT_REDUCE_SCATTER, RT_ALL_GATHER, RT_BROADCAST,
                              RT_REDUCE,     RT_ALL_TO_ALL,     RT_SEND};
constexpr rt_dtype kTypes[] = {RT_FLOAT32, RT_FLOAT64, RT_FLOAT16, RT_BFLOAT16,
                               RT_INT32,   RT_INT64,   RT_UINT8,   RT_INT8};
constexpr uint64_t kCounts[] = {0, 1, 1021};
constexpr uint64_t kLargeBytes = 64 << 20;

Call with_kind(Call call, int32_t kind) {
  call.kind = kind;
  return call;
}

// Rank `from` sends to the next rank; the other ranks do nothing.
void send_to_next(Session& session, Call call, int32_t from) {
  const int32_t to = (from + 1) % session.world().size;
  const int32_t rank = session.world().rank;
  if (rank != from && rank != to) return;
  call.kind = rank == from ? RT_SEND : RT_RECEIVE;
  call.peer = rank == from ? to : from;
  Exchange(session, session.team(), call).run();
}

// Runs the call once for every root or every sender.
void run_from_everyone(Session& session, Call call) {
  for (int32_t rank = 0; rank < session.world().size; ++rank) {
    if (call.kind == RT_SEND) {
      send_to_next(session, call, rank);
      continue;
    }
    if (has_root(call.kind)) call.peer = rank;
    Exchange(session, session.team(), call).run();
    if (!has_root(call.kind)) return;
  }
}

void require_kind(const Session& session, const Call& call) {
  session.require(call);
  if (call.kind != RT_SEND) return;
  session.require(with_kind(call, RT_RECEIVE));
  session.require_ranks(2);
}

void run_counts(Session& session, Call call) {
  require_kind(session, call);
  for (const uint64_t count : kCounts) {
    for (const bool in_place : {false, true}) {
      call.count = count;
      call.in_place = in_place;
      if (session.claims(call) && !(in_place && call.kind == RT_SEND)) {
        run_from_everyone(session, call);
      }
    }
  }
}

// The larger of the two buffers has 64 MiB. If it has a block for each rank, its size is rounded
// down to a multiple of the number of ranks.
void run_large(Session& session, int32_t kind) {
  Call call{.kind = kind, .dtype = RT_FLOAT32};
  if (has_reduction(kind)) call.reduction = RT_SUM;
  require_kind(session, call);
  const bool divided = kind == RT_REDUCE_SCATTER || kind == RT_ALL_GATHER || kind == RT_ALL_TO_ALL;
  call.count =
      kLargeBytes / sizeof(float) / static_cast<uint64_t>(divided ? session.world().size : 1);
  if (kind == RT_SEND) return send_to_next(session, call, session.world().size - 1);
  if (has_root(kind)) call.peer = session.world().size - 1;
  Exchange(session, session.team(), call).run();
}

// Each rank gathers the sums of all ranks and compares their bits: replicas whose sums differ in a
// bit would drift apart.
void same_bits(Session& session) {
  Call reduce{.kind = RT_ALL_REDUCE, .dtype = RT_FLOAT32, .reduction = RT_AVERAGE, .count = 1021};
  session.require(reduce);
  session.require({.kind = RT_ALL_GATHER, .dtype = RT_INT32, .count = reduce.count});
  Exchange exchange(session, session.team(), reduce);
  exchange.run();
  const auto ranks = static_cast<std::size_t>(session.world().size);
  const std::size_t bytes = reduce.count * sizeof(float);
  CommunicatorBuffer own(session.world().device.get(), bytes);
  CommunicatorBuffer all(session.world().device.get(), ranks * bytes);
  std::copy_n(exchange.received().begin(), bytes, own.host().begin());
  own.upload();
  rt_collective gather =
      host::make_collective(RT_ALL_GATHER, RT_INT32, own.data(), all.data(), reduce.count);
  gather.memory_kind = session.memory_kind();
  session.team().communicator->enqueue(gather).wait(session.world().timeout);
  all.download();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto part = all.host().begin() + static_cast<std::ptrdiff_t>(rank * bytes);
    session.expect(std::equal(part, part + static_cast<std::ptrdiff_t>(bytes), own.host().begin()),
                   rt::sdk::format("rank %zu has other bits of the same sums", rank));
  }
}

std::string case_name(const Call& call) {
  const std::string kind = call.kind == RT_SEND ? "send_receive" : host::collective_name(call.kind);
  const std::string name = kind + "/" + rt::sdk::to_string(call.dtype);
  return has_reduction(call.kind) ? name + "/" + host::reduction_name(call.reduction) : name;
}

}  // namespace

std::vector<CommunicatorCase> data_cases() {
  std::vector<CommunicatorCase> cases;
  for (const int32_t kind : kKinds) {
    for (const rt_dtype dtype : kTypes) {
      const int32_t first = has_reduction(kind) ? RT_SUM : 0;
      const int32_t last = has_reduction(kind) ? RT_MAX : 0;
      for (int32_t reduction = first; reduction <= last; ++reduction) {
        const Call call{.kind = kind, .dtype = dtype, .reduction = reduction};
        cases.push_back({case_name(call), [call](Session& s) { run_counts(s, call); }});
      }
    }
  }
  for (const int32_t kind : kKinds) {
    cases.push_back(
        {"large/" + host::collective_name(kind), [kind](Session& s) { run_large(s, kind); }});
  }
  cases.push_back({"same_bits", same_bits});
  return cases;
}

}  // namespace plugins::conformance
