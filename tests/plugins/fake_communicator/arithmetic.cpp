// The arithmetic of the collectives. All results are computed before any is stored, so that send
// and receive buffers may be the same memory.
#include <algorithm>
#include <cstring>

#include "hub.h"
#include "rt/sdk/error.h"

namespace fake {
namespace {

using rt::sdk::Error;
using Calls = std::vector<rt_collective>;

template <typename T>
const T* sent(const rt_collective& call) {
  return static_cast<const T*>(call.send);
}

template <typename T>
T combine(T a, T b, int32_t reduction) {
  switch (reduction) {
    case RT_SUM:
    case RT_AVERAGE:
      return static_cast<T>(a + b);
    case RT_MIN:
      return std::min(a, b);
    case RT_MAX:
      return std::max(a, b);
    default:
      throw Error(RT_ERROR_UNSUPPORTED,
                  rt::sdk::format("reduction %d; expected 1 to 4", reduction));
  }
}

// The sum (or other reduction) of `count` elements from `offset` on, over the send buffers of all
// ranks in their order.
template <typename T>
std::vector<T> reduce(const Calls& calls, std::size_t offset, std::size_t count) {
  std::vector<T> result(sent<T>(calls[0]) + offset, sent<T>(calls[0]) + offset + count);
  for (std::size_t rank = 1; rank < calls.size(); ++rank) {
    const T* terms = sent<T>(calls[rank]) + offset;
    for (std::size_t i = 0; i < count; ++i) {
      result[i] = combine(result[i], terms[i], calls[0].reduction);
    }
  }
  if (calls[0].reduction == RT_AVERAGE) {
    for (T& value : result) value = static_cast<T>(value / static_cast<T>(calls.size()));
  }
  return result;
}

// Chunk `part`, of `count` elements, of every rank's send buffer, concatenated in the order of
// ranks.
template <typename T>
std::vector<T> gather(const Calls& calls, std::size_t part, std::size_t count) {
  std::vector<T> result;
  for (const rt_collective& call : calls) {
    result.insert(result.end(), sent<T>(call) + part * count, sent<T>(call) + (part + 1) * count);
  }
  return result;
}

template <typename T>
std::vector<T> result_of(const Calls& calls, std::size_t rank) {
  const rt_collective& call = calls[rank];
  const auto count = static_cast<std::size_t>(call.count);
  const auto peer = static_cast<std::size_t>(call.peer);
  switch (call.kind) {
    case RT_ALL_REDUCE:
      return reduce<T>(calls, 0, count);
    case RT_REDUCE_SCATTER:
      return reduce<T>(calls, rank * count, count);
    case RT_ALL_GATHER:
      return gather<T>(calls, 0, count);
    case RT_BROADCAST:
      return {sent<T>(calls[peer]), sent<T>(calls[peer]) + count};
    case RT_REDUCE:
      return rank == peer ? reduce<T>(calls, 0, count) : std::vector<T>();
    case RT_ALL_TO_ALL:
      return gather<T>(calls, rank, count);
    case RT_RECEIVE:  // calls holds send and receive, in this order
      return {sent<T>(calls[0]), sent<T>(calls[0]) + count};
    default:  // send and barrier have nothing to store
      return {};
  }
}

template <typename T>
void carry_out_as(const Calls& calls) {
  std::vector<std::vector<T>> results;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    results.push_back(result_of<T>(calls, rank));
  }
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    if (results[rank].empty()) continue;
    std::memcpy(calls[rank].receive, results[rank].data(), results[rank].size() * sizeof(T));
  }
}

}  // namespace

void carry_out(const Calls& calls) {
  switch (calls[0].kind == RT_BARRIER ? RT_INT32 : calls[0].dtype) {
    case RT_FLOAT32:
      return carry_out_as<float>(calls);
    case RT_FLOAT64:
      return carry_out_as<double>(calls);
    case RT_INT32:
      return carry_out_as<int32_t>(calls);
    case RT_INT64:
      return carry_out_as<int64_t>(calls);
    default:
      throw Error(RT_ERROR_UNSUPPORTED, rt::sdk::format("dtype %d", calls[0].dtype));
  }
}

}  // namespace fake
