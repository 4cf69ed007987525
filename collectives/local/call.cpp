// Checks arguments of a collective against the contract, with the words for what is wrong.
#include "collectives/local/call.h"

#include "rt/sdk/communicator.h"
#include "rt/sdk/operation.h"

namespace collectives::local {
namespace {

using rt::sdk::Error;
using rt::sdk::format;
using rt::sdk::has_peer;
using rt::sdk::is_transfer;
using rt::sdk::reduces;

bool reads_send(const rt_collective& call, int32_t rank) {
  if (call.kind == RT_BROADCAST) return rank == call.peer;
  return call.kind != RT_RECEIVE && call.kind != RT_BARRIER;
}

bool writes_receive(const rt_collective& call, int32_t rank) {
  if (call.kind == RT_REDUCE) return rank == call.peer;
  return call.kind != RT_SEND && call.kind != RT_BARRIER;
}

const char* name_of(int32_t kind) {
  static constexpr const char* kNames[] = {
      "",       "all_reduce", "reduce_scatter", "all_gather", "broadcast",
      "reduce", "all_to_all", "send",           "receive",    "barrier"};
  return kind == kSplit ? "split" : kNames[kind];
}

const char* reduction_name(int32_t reduction) {
  static constexpr const char* kNames[] = {"", "sum", "average", "min", "max"};
  return kNames[reduction];
}

[[noreturn]] void refuse(rt_status status, const std::string& message) {
  throw Error(status, "local: " + message);
}

}  // namespace

void check_call(const rt_collective& call, int32_t rank, int32_t size) {
  if (call.kind < RT_ALL_REDUCE || call.kind > RT_BARRIER) {
    refuse(RT_ERROR_INVALID_ARGUMENT, format("collective %d; expected %d (all_reduce) to %d "
                                             "(barrier)",
                                             call.kind, RT_ALL_REDUCE, RT_BARRIER));
  }
  if (call.stream != nullptr) {
    refuse(RT_ERROR_UNSUPPORTED,
           "a stream was given; wait for it, then start the collective without one");
  }
  if (has_peer(call.kind) && (call.peer < 0 || call.peer >= size)) {
    refuse(RT_ERROR_INVALID_ARGUMENT,
           format("%s with peer %d; expected 0 to %d", name_of(call.kind), call.peer, size - 1));
  }
  if (reduces(call.kind) && (call.reduction < RT_SUM || call.reduction > RT_MAX)) {
    refuse(RT_ERROR_INVALID_ARGUMENT, format("%s with reduction %d; expected %d (sum) to %d (max)",
                                             name_of(call.kind), call.reduction, RT_SUM, RT_MAX));
  }
  if (call.kind == RT_BARRIER) return;
  if (rt::sdk::dtype_bytes(call.dtype) == 0) {
    refuse(RT_ERROR_UNSUPPORTED,
           format("%s of dtype %d, which has no known size", name_of(call.kind), call.dtype));
  }
  if (call.count > 0 && ((reads_send(call, rank) && call.send == nullptr) ||
                         (writes_receive(call, rank) && call.receive == nullptr))) {
    refuse(RT_ERROR_INVALID_ARGUMENT, describe(call) + ": a buffer that it needs is NULL");
  }
}

bool agree(const rt_collective& a, const rt_collective& b) {
  if (a.kind != b.kind && !(is_transfer(a.kind) && is_transfer(b.kind))) return false;
  if (a.kind == RT_BARRIER || a.kind == kSplit) return true;
  if (a.dtype != b.dtype || a.count != b.count) return false;
  if (is_transfer(a.kind)) return true;
  return (!reduces(a.kind) || a.reduction == b.reduction) &&
         (!has_peer(a.kind) || a.peer == b.peer);
}

std::string describe(const rt_collective& call) {
  std::string text = name_of(call.kind);
  if (call.kind == RT_BARRIER || call.kind == kSplit) return text;
  text += format(" of %llu %s", static_cast<unsigned long long>(call.count),
                 rt::sdk::to_string(call.dtype).c_str());
  if (reduces(call.kind)) text += std::string(", ") + reduction_name(call.reduction);
  if (call.kind == RT_SEND || call.kind == RT_REDUCE) text += format(" to %d", call.peer);
  if (call.kind == RT_RECEIVE || call.kind == RT_BROADCAST) text += format(" from %d", call.peer);
  return text;
}

}  // namespace collectives::local
