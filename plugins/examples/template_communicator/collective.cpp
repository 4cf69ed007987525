// Cuts the bytes for each rank out of the buffers, and reduces or places what has arrived.
#include "collective.h"

#include <algorithm>
#include <cstring>

#include "rt/sdk/communicator.h"
#include "rt/sdk/error.h"
#include "rt/sdk/tensor.h"

namespace template_communicator {
namespace {

using rt::sdk::Error;
using rt::sdk::has_peer;
using rt::sdk::reduces;

// Whether each rank sends a chunk for every rank.
bool has_chunks(int32_t kind) { return kind == RT_REDUCE_SCATTER || kind == RT_ALL_TO_ALL; }

size_t chunk_bytes(const rt_collective& call) {
  return static_cast<size_t>(call.count) * rt::sdk::dtype_bytes(call.dtype);
}

template <typename T>
void reduce_into(T* result, const T* more, size_t count, int32_t reduction) {
  for (size_t i = 0; i < count; ++i) {
    if (reduction == RT_MIN) {
      result[i] = std::min(result[i], more[i]);
    } else if (reduction == RT_MAX) {
      result[i] = std::max(result[i], more[i]);
    } else {
      result[i] += more[i];
    }
  }
}

// Reduces one chunk of each message into `receive`.
template <typename T>
void reduce(const rt_collective& call, const Place& place, const std::vector<Bytes>& messages) {
  const auto count = static_cast<size_t>(call.count);
  const size_t first = call.kind == RT_REDUCE_SCATTER ? static_cast<size_t>(place.rank) * count : 0;
  std::vector<T> result(count);
  for (size_t i = 0; i < messages.size(); ++i) {
    const T* const chunk = reinterpret_cast<const T*>(messages[i].data()) + first;
    if (i == 0) {
      std::copy_n(chunk, count, result.data());
    } else {
      reduce_into(result.data(), chunk, count, call.reduction);
    }
  }
  if (call.reduction == RT_AVERAGE)
    for (T& value : result) value /= static_cast<T>(place.size);
  std::copy_n(result.data(), count, static_cast<T*>(call.receive));
}

void reduce_in_type(const rt_collective& call, const Place& place,
                    const std::vector<Bytes>& messages) {
  switch (call.dtype) {
    case RT_FLOAT32:
      return reduce<float>(call, place, messages);
    case RT_FLOAT64:
      return reduce<double>(call, place, messages);
    case RT_INT32:
      return reduce<int32_t>(call, place, messages);
    default:
      return reduce<int64_t>(call, place, messages);
  }
}

}  // namespace

void check(const rt_collective& call, const Place& place) {
  if (call.kind < RT_ALL_REDUCE || call.kind > RT_BARRIER)
    throw Error(RT_ERROR_UNSUPPORTED, rt::sdk::format("collective %d is unknown", call.kind));
  if (has_peer(call.kind) && (call.peer < 0 || call.peer >= place.size)) {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                rt::sdk::format("peer %d of %d ranks", call.peer, place.size));
  }
  if (call.stream != nullptr)
    throw Error(RT_ERROR_UNSUPPORTED, "a stream was given; only host memory is supported");
  if (call.kind == RT_BARRIER) return;
  const uint64_t types = reduces(call.kind) ? kReducedTypes : rt::sdk::kAllDtypes;
  if (call.dtype < 1 || call.dtype > RT_INT8 || (types & RT_DTYPE_BIT(call.dtype)) == 0) {
    throw Error(RT_ERROR_UNSUPPORTED,
                rt::sdk::format("type %d; reductions are in float32, float64, int32 and int64",
                                call.dtype));
  }
  if (reduces(call.kind) && (call.reduction < RT_SUM || call.reduction > RT_MAX))
    throw Error(RT_ERROR_UNSUPPORTED, rt::sdk::format("reduction %d", call.reduction));
}

size_t sent_bytes(const rt_collective& call, const Place& place, int32_t sender) {
  if (call.kind == RT_BARRIER) return 1;
  if (call.kind == RT_RECEIVE && sender == place.rank) return 0;
  if (call.kind == RT_BROADCAST && sender != call.peer) return 0;
  return chunk_bytes(call) * (has_chunks(call.kind) ? static_cast<size_t>(place.size) : 1);
}

std::vector<int32_t> senders(const rt_collective& call, const Place& place) {
  if (call.kind == RT_SEND || (call.kind == RT_REDUCE && call.peer != place.rank)) return {};
  if (call.kind == RT_RECEIVE || call.kind == RT_BROADCAST) return {call.peer};
  std::vector<int32_t> all;
  for (int32_t rank = 0; rank < place.size; ++rank) all.push_back(rank);
  return all;
}

void combine(const rt_collective& call, const Place& place, const std::vector<Bytes>& messages) {
  if (call.kind == RT_BARRIER || call.count == 0) return;
  if (reduces(call.kind)) return messages.empty() ? void() : reduce_in_type(call, place, messages);
  const size_t bytes = chunk_bytes(call);
  const size_t first = call.kind == RT_ALL_TO_ALL ? static_cast<size_t>(place.rank) * bytes : 0;
  auto* to = static_cast<std::byte*>(call.receive);
  for (const Bytes& message : messages) {
    std::memcpy(to, message.data() + first, bytes);
    to += bytes;
  }
}

}  // namespace template_communicator
