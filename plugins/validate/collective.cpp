// Checks the buffers of a collective: their device, size, overlap and uses in flight.
#include "plugins/validate/collective.h"

#include <algorithm>

#include "plugins/host/text.h"
#include "plugins/validate/blocks.h"
#include "plugins/validate/difference.h"
#include "plugins/validate/memory.h"
#include "plugins/validate/order.h"

namespace plugins::validate {
namespace {

const rt_comm_capability* row_of(const CommunicatorObject& communicator,
                                 const rt_collective& collective) {
  for (const rt_comm_capability& row : communicator.rows) {
    const bool reduces =
        collective.reduction == 0 || (row.reductions >> collective.reduction & 1) != 0;
    if (row.collective == collective.kind && (row.dtypes & RT_DTYPE_BIT(collective.dtype)) != 0 &&
        (row.memory_kinds >> collective.memory_kind & 1) != 0 && reduces)
      return &row;
  }
  return nullptr;
}

// Whether the collective works in place, see rt_collective.
bool is_in_place(const CommunicatorObject& communicator, const rt_collective& collective,
                 const Buffers& buffers) {
  const rt_comm_capability* const row = row_of(communicator, collective);
  if (row == nullptr || (row->flags & RT_COMM_IN_PLACE) == 0) return false;
  const uint64_t chunk = collective.count * element_bytes(collective.dtype);
  const auto is_own_chunk = [&](const Range& part, const Range& whole) {
    const uint64_t offset = part.begin - whole.begin;
    if (communicator.rank >= 0) return offset == chunk * static_cast<uint64_t>(communicator.rank);
    return part.begin >= whole.begin && offset % chunk == 0;
  };
  if (collective.kind == RT_REDUCE_SCATTER) return is_own_chunk(buffers.received, buffers.sent);
  if (collective.kind == RT_ALL_GATHER) return is_own_chunk(buffers.sent, buffers.received);
  return buffers.sent.begin == buffers.received.begin;
}

// The device that has allocated the memory; nullptr: none has.
DeviceObject* device_of(const CommunicatorObject& communicator, const Range& range) {
  if (communicator.device != nullptr) return communicator.device;
  return owner_of(communicator.tracker(), range.begin);
}

void check_buffer(CommunicatorObject& communicator, StreamObject* stream, const Epoch& epoch,
                  const Range& range, bool writes, const std::string& where) {
  if (range.bytes == 0) return;
  if (range.begin == 0)
    communicator.findings().fault(Offender::kRuntime, where,
                                  "is NULL, but has " + std::to_string(range.bytes) + " bytes");
  expect_not_in_flight(communicator.tracker(), range, writes, where);
  DeviceObject* const owner = device_of(communicator, range);
  if (owner == nullptr || !expect_any_memory(*owner, range, where)) return;
  if (stream != nullptr) return use(*stream, range, writes, epoch, where);
  use_by_host(*owner, range, writes, where);
}

}  // namespace

Buffers buffers_of(const CommunicatorObject& communicator, const rt_collective& c) {
  const uint64_t chunk = c.count * element_bytes(c.dtype);
  const uint64_t all = chunk * static_cast<uint64_t>(std::max(communicator.world_size, 1));
  const bool is_root = c.peer == communicator.rank;
  const bool scatters = c.kind == RT_REDUCE_SCATTER || c.kind == RT_ALL_TO_ALL;
  const bool gathers = c.kind == RT_ALL_GATHER || c.kind == RT_ALL_TO_ALL;
  const bool sends =
      c.kind != RT_RECEIVE && c.kind != RT_BARRIER && (c.kind != RT_BROADCAST || is_root);
  const bool receives =
      c.kind != RT_SEND && c.kind != RT_BARRIER && (c.kind != RT_REDUCE || is_root);
  const uint64_t sent = scatters ? all : chunk, received = gathers ? all : chunk;
  return {range_of(c.send, sends ? sent : 0), range_of(c.receive, receives ? received : 0)};
}

bool is_on_stream(const CommunicatorObject& communicator, const rt_collective& collective) {
  const rt_comm_capability* const row = row_of(communicator, collective);
  return collective.stream != nullptr && row != nullptr && (row->flags & RT_COMM_ON_STREAM) != 0;
}

void check_and_keep(CommunicatorObject& communicator, StreamObject* stream,
                    const rt_collective& collective, const Object* work) {
  const std::string where = communicator.name + ": " + host::collective_name(collective.kind);
  const Buffers buffers = buffers_of(communicator, collective);
  const std::lock_guard lock(communicator.tracker().mutex);
  const bool both = buffers.sent.bytes > 0 && buffers.received.bytes > 0;
  if (both && buffers.sent.overlaps(buffers.received) &&
      !is_in_place(communicator, collective, buffers))
    communicator.findings().fault(Offender::kRuntime, where,
                                  "send (" + to_string(buffers.sent) + ") and receive (" +
                                      to_string(buffers.received) +
                                      ") overlap, and the collective is not in place");
  const Epoch epoch = stream != nullptr ? begin_work(*stream) : Epoch{};
  check_buffer(communicator, stream, epoch, buffers.sent, false, where + ": send");
  check_buffer(communicator, stream, epoch, buffers.received, true, where + ": receive");
  if (stream == nullptr)
    communicator.tracker().flights.push_back(
        {work, &communicator, buffers.sent, buffers.received, where});
}

}  // namespace plugins::validate
