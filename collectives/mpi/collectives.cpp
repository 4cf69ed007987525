// Calls MPI for each collective: stages 16-bit sums in float32, and has a ring of its own between
// hosts.
#include "collectives.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "rt/device.h"
#include "rt/sdk/communicator.h"
#include "rt/sdk/float16.h"
#include "rt/sdk/operation.h"
#include "status.h"

namespace collectives::mpi {
namespace {

using rt::sdk::Error;
using rt::sdk::format;

// Elements that are copied into a buffer of the plugin at a time: 4 MiB of float32.
constexpr uint64_t kStagedElements = uint64_t{1} << 20;

// All-reduces of at least this many bytes use the ring between hosts.
constexpr std::size_t kRingBytes = 64 * 1024;
// Bytes of one message. Open MPI sends messages of up to 64 KiB over TCP without a handshake; the
// answer to a handshake would wait behind the data in the queue of a slow link.
constexpr uint64_t kRingPiece = 60 * 1024;
constexpr uint64_t kRingPieces = 8;  // messages in flight at a time
constexpr int kRingTag = 2;

bool is_half(rt_dtype dtype) { return dtype == RT_FLOAT16 || dtype == RT_BFLOAT16; }

// The type in which elements are added. 16-bit floats are sent as float32, so that they are rounded
// only once.
rt_dtype wide_type(rt_dtype dtype) { return is_half(dtype) ? RT_FLOAT32 : dtype; }

MPI_Op mpi_op(int32_t reduction) {
  return reduction == RT_MIN ? MPI_MIN : reduction == RT_MAX ? MPI_MAX : MPI_SUM;
}

const std::byte* at(const void* base, uint64_t elements, rt_dtype dtype) {
  return static_cast<const std::byte*>(base) + elements * rt::sdk::dtype_bytes(dtype);
}
std::byte* at(void* base, uint64_t elements, rt_dtype dtype) {
  return static_cast<std::byte*>(base) + elements * rt::sdk::dtype_bytes(dtype);
}

// Converts from the type of the call to the type that is sent, which is the same or float32.
void widen(rt_dtype dtype, rt_dtype wide_dtype, const void* from, int n, void* to) {
  if (dtype == wide_dtype) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * rt::sdk::dtype_bytes(dtype));
    return;
  }
  const auto* bits = static_cast<const uint16_t*>(from);
  auto* wide = static_cast<float*>(to);
  if (dtype == RT_FLOAT16) {
    for (int i = 0; i < n; ++i) wide[i] = rt::sdk::from_float16(bits[i]);
  } else {
    for (int i = 0; i < n; ++i) wide[i] = rt::sdk::from_bfloat16(bits[i]);
  }
}

void narrow(rt_dtype dtype, rt_dtype wide_dtype, const void* from, int n, void* to) {
  if (dtype == wide_dtype) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * rt::sdk::dtype_bytes(dtype));
    return;
  }
  const auto* wide = static_cast<const float*>(from);
  auto* bits = static_cast<uint16_t*>(to);
  if (dtype == RT_FLOAT16) {
    for (int i = 0; i < n; ++i) bits[i] = rt::sdk::to_float16(wide[i]);
  } else {
    for (int i = 0; i < n; ++i) bits[i] = rt::sdk::to_bfloat16(wide[i]);
  }
}

template <typename T>
void divide(void* data, int n, int divisor) {
  T* values = static_cast<T*>(data);
  for (int i = 0; i < n; ++i) values[i] = static_cast<T>(values[i] / static_cast<T>(divisor));
}

// Divides a sum to give the average. 8-bit integers are divided in int, so that the divisor is not
// truncated to 8 bits.
void divide(rt_dtype wide, void* data, int n, int divisor) {
  switch (wide) {
    case RT_FLOAT32:
      return divide<float>(data, n, divisor);
    case RT_FLOAT64:
      return divide<double>(data, n, divisor);
    case RT_INT32:
      return divide<int32_t>(data, n, divisor);
    case RT_INT64:
      return divide<int64_t>(data, n, divisor);
    case RT_UINT8: {
      auto* values = static_cast<uint8_t*>(data);
      for (int i = 0; i < n; ++i) values[i] = static_cast<uint8_t>(values[i] / divisor);
      return;
    }
    default: {
      auto* values = static_cast<int8_t*>(data);
      for (int i = 0; i < n; ++i) values[i] = static_cast<int8_t>(values[i] / divisor);
    }
  }
}

// An all-reduce in place around a ring: reduce-scatter, then all-gather (Patarasuk and Yuan,
// "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009). Every rank sends
// and receives all the time. Over TCP, MPI_Allreduce of Open MPI 4.1 takes twice as long; README.md
// says why.
class Ring {
 public:
  Ring(const Team& team, rt_dtype dtype, MPI_Op op, void* data, int n)
      : team_(team), dtype_(dtype), op_(op), data_(data), n_(n) {}

  void all_reduce() {
    for (int step = 0; step < team_.size - 1; ++step) pass(team_.rank - step, true);
    for (int step = 0; step < team_.size - 1; ++step) pass(team_.rank + 1 - step, false);
  }

 private:
  uint64_t begin(int part) const {
    return static_cast<uint64_t>(n_) * static_cast<uint64_t>(part) /
           static_cast<uint64_t>(team_.size);
  }
  int wrapped(int rank) const { return (rank + 2 * team_.size) % team_.size; }

  // Sends chunk `part` to the next rank while it receives chunk `part` - 1 from the previous rank;
  // `adds` says whether the received chunk is added or copied.
  void pass(int part, bool adds) {
    const int sent = wrapped(part), received = wrapped(part - 1);
    const uint64_t to_send = begin(sent + 1) - begin(sent);
    const uint64_t to_receive = begin(received + 1) - begin(received);
    const uint64_t window = kRingPieces * kRingPiece / rt::sdk::dtype_bytes(dtype_);
    if (adds) incoming_.resize(kRingPieces * kRingPiece);
    for (uint64_t offset = 0; offset < std::max(to_send, to_receive); offset += window) {
      std::byte* target = at(data_, begin(received) + offset, dtype_);
      const uint64_t n = part_of(to_receive, offset, window);
      post(adds ? incoming_.data() : target, n, [&](void* to, int count, MPI_Request* request) {
        return MPI_Irecv(to, count, mpi_type(dtype_), wrapped(team_.rank - 1), kRingTag, team_.comm,
                         request);
      });
      post(at(data_, begin(sent) + offset, dtype_), part_of(to_send, offset, window),
           [&](const void* from, int count, MPI_Request* request) {
             return MPI_Isend(from, count, mpi_type(dtype_), wrapped(team_.rank + 1), kRingTag,
                              team_.comm, request);
           });
      check(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE),
            "MPI_Waitall");
      requests_.clear();
      if (!adds) continue;
      check(MPI_Reduce_local(incoming_.data(), target, static_cast<int>(n), mpi_type(dtype_), op_),
            "MPI_Reduce_local");
    }
  }

  template <typename Start>
  void post(std::byte* data, uint64_t count, const Start& start) {
    in_parts(count, kRingPiece / rt::sdk::dtype_bytes(dtype_), [&](uint64_t offset, int n) {
      requests_.push_back(MPI_REQUEST_NULL);
      check(start(at(data, offset, dtype_), n, &requests_.back()), "MPI_Isend or MPI_Irecv");
    });
  }

  static uint64_t part_of(uint64_t count, uint64_t offset, uint64_t window) {
    return offset >= count ? 0 : std::min(window, count - offset);
  }

  const Team& team_;
  rt_dtype dtype_;
  MPI_Op op_;
  void* data_;
  int n_;
  std::vector<std::byte> incoming_;
  std::vector<MPI_Request> requests_;
};

void all_reduce(const Team& team, rt_dtype dtype, MPI_Op op, const void* send, void* receive,
                int n) {
  const std::size_t bytes = static_cast<std::size_t>(n) * rt::sdk::dtype_bytes(dtype);
  if (!team.ring || bytes < kRingBytes) {
    check(MPI_Allreduce(send == receive ? MPI_IN_PLACE : send, receive, n, mpi_type(dtype), op,
                        team.comm),
          "MPI_Allreduce");
    return;
  }
  if (send != receive) std::memcpy(receive, send, bytes);
  Ring(team, dtype, op, receive, n).all_reduce();
}

// One all-reduce or reduce of `n` elements of a type that MPI supports. `receive` is used only on
// ranks that want the result.
void reduce_part(const Team& team, const rt_collective& call, const void* send, void* receive,
                 int n) {
  const rt_dtype wide = wide_type(call.dtype);
  const bool mine = call.kind == RT_ALL_REDUCE || call.peer == team.rank;
  const bool in_place = mine && send == receive;
  if (call.kind == RT_ALL_REDUCE) {
    all_reduce(team, wide, mpi_op(call.reduction), send, receive, n);
  } else {
    // Copies the data, because MPICH 4.0.2 takes the value MPI_IN_PLACE for an address of data if
    // the root is not the first rank of its host.
    std::vector<std::byte> copy;
    if (in_place) copy.assign(at(send, 0, wide), at(send, static_cast<uint64_t>(n), wide));
    check(MPI_Reduce(in_place ? copy.data() : send, mine ? receive : nullptr, n, mpi_type(wide),
                     mpi_op(call.reduction), call.peer, team.comm),
          "MPI_Reduce");
  }
  if (mine && call.reduction == RT_AVERAGE) divide(wide, receive, n, team.size);
}

void reduce(const Team& team, const rt_collective& call) {
  const bool mine = call.kind == RT_ALL_REDUCE || call.peer == team.rank;
  if (!is_half(call.dtype)) {
    in_parts(call.count, team.limits.largest_count, [&](uint64_t offset, int n) {
      reduce_part(team, call, at(call.send, offset, call.dtype),
                  mine ? at(call.receive, offset, call.dtype) : nullptr, n);
    });
    return;
  }
  const uint64_t part = std::min({team.limits.largest_count, kStagedElements, call.count});
  std::vector<float> wide(part);
  in_parts(call.count, part, [&](uint64_t offset, int n) {
    widen(call.dtype, RT_FLOAT32, at(call.send, offset, call.dtype), n, wide.data());
    reduce_part(team, call, wide.data(), wide.data(), n);
    if (mine) narrow(call.dtype, RT_FLOAT32, wide.data(), n, at(call.receive, offset, call.dtype));
  });
}

// Reduce-scatter, all-gather or all-to-all with `n` elements for each rank. Not in place, except an
// all-gather with MPI_IN_PLACE as `send`.
void exchange_part(const Team& team, const rt_collective& call, const void* send, void* receive,
                   int n) {
  if (call.kind == RT_REDUCE_SCATTER) {
    const rt_dtype wide = wide_type(call.dtype);
    check(MPI_Reduce_scatter_block(send, receive, n, mpi_type(wide), mpi_op(call.reduction),
                                   team.comm),
          "MPI_Reduce_scatter_block");
    if (call.reduction == RT_AVERAGE) divide(wide, receive, n, team.size);
    return;
  }
  const MPI_Datatype type = mpi_type(call.dtype);
  if (call.kind == RT_ALL_GATHER) {
    check(MPI_Allgather(send, n, type, receive, n, type, team.comm), "MPI_Allgather");
  } else {
    check(MPI_Alltoall(send, n, type, receive, n, type, team.comm), "MPI_Alltoall");
  }
}

// Like exchange_part, but through buffers of the plugin, with one chunk for each rank at a time. It
// serves counts that are too large for one call of MPI, reduce-scatters of 16-bit floats, and calls
// in place.
void exchange_staged(const Team& team, const rt_collective& call) {
  const auto ranks = static_cast<uint64_t>(team.size);
  const uint64_t sent_parts = call.kind == RT_ALL_GATHER ? 1 : ranks;
  const uint64_t received_parts = call.kind == RT_REDUCE_SCATTER ? 1 : ranks;
  const bool adds = call.kind == RT_REDUCE_SCATTER;
  const rt_dtype wide = adds ? wide_type(call.dtype) : call.dtype;
  const uint64_t largest =
      std::max<uint64_t>(1, std::min(team.limits.largest_count, kStagedElements) / ranks);
  const uint64_t part = std::min(largest, call.count);
  std::vector<std::byte> out(sent_parts * part * rt::sdk::dtype_bytes(wide));
  std::vector<std::byte> in(received_parts * part * rt::sdk::dtype_bytes(wide));
  in_parts(call.count, part, [&](uint64_t offset, int n) {
    const auto length = static_cast<uint64_t>(n);
    for (uint64_t i = 0; i < sent_parts; ++i) {
      const std::byte* from = at(call.send, i * call.count + offset, call.dtype);
      std::byte* to = at(out.data(), i * length, wide);
      widen(call.dtype, wide, from, n, to);
    }
    exchange_part(team, call, out.data(), in.data(), n);
    for (uint64_t i = 0; i < received_parts; ++i) {
      const std::byte* from = at(in.data(), i * length, wide);
      narrow(call.dtype, wide, from, n, at(call.receive, i * call.count + offset, call.dtype));
    }
  });
}

void exchange(const Team& team, const rt_collective& call) {
  const auto ranks = static_cast<uint64_t>(team.size);
  const std::byte* send = at(call.send, 0, call.dtype);
  const std::byte* own_part =
      at(call.receive, static_cast<uint64_t>(team.rank) * call.count, call.dtype);
  const bool adds = call.kind == RT_REDUCE_SCATTER;
  const bool in_place =
      adds
          ? call.receive == at(call.send, static_cast<uint64_t>(team.rank) * call.count, call.dtype)
          : send == call.receive;
  if (call.count > team.limits.largest_count / ranks || (adds && is_half(call.dtype)) ||
      (in_place && call.kind == RT_ALL_TO_ALL)) {
    return exchange_staged(team, call);
  }
  const auto n = static_cast<int>(call.count);
  if (call.kind == RT_ALL_GATHER && send == own_part) {
    return exchange_part(team, call, MPI_IN_PLACE, call.receive, n);
  }
  if (adds && in_place) {
    std::vector<std::byte> part(call.count * rt::sdk::dtype_bytes(call.dtype));
    exchange_part(team, call, call.send, part.data(), n);
    std::memcpy(call.receive, part.data(), part.size());
    return;
  }
  exchange_part(team, call, call.send, call.receive, n);
}

void broadcast(const Team& team, const rt_collective& call) {
  const bool root = call.peer == team.rank;
  void* data = root ? const_cast<void*>(call.send) : call.receive;
  in_parts(call.count, team.limits.largest_count, [&](uint64_t offset, int n) {
    check(MPI_Bcast(at(data, offset, call.dtype), n, mpi_type(call.dtype), call.peer, team.comm),
          "MPI_Bcast");
  });
  if (root && call.receive != call.send) {
    std::memcpy(call.receive, call.send, call.count * rt::sdk::dtype_bytes(call.dtype));
  }
}

[[noreturn]] void refuse(const std::string& message, rt_status code = RT_ERROR_INVALID_ARGUMENT) {
  throw Error(code, message);
}

bool in_device_memory(const Team& team, const rt_collective& call) {
  if (!team.limits.device_memory || std::find(std::begin(kDeviceKinds), std::end(kDeviceKinds),
                                              call.kind) == std::end(kDeviceKinds))
    return false;
  // An all-gather of more elements in all than largest_count would go through host buffers of the
  // plugin, so it is not supported in device memory.
  if (call.kind == RT_ALL_GATHER)
    return call.count <= team.limits.largest_count / static_cast<uint64_t>(team.size);
  return !rt::sdk::reduces(call.kind) || ((kDeviceSums & RT_DTYPE_BIT(call.dtype)) != 0 &&
                                          (kDeviceReductions >> call.reduction & 1) != 0);
}

void check_buffers(const Team& team, const rt_collective& call) {
  const bool root = call.peer == team.rank;
  const bool sends = call.kind != RT_RECEIVE && (call.kind != RT_BROADCAST || root);
  const bool receives = call.kind != RT_SEND && (call.kind != RT_REDUCE || root);
  if (call.count == 0) return;
  if ((sends && call.send == nullptr) || (receives && call.receive == nullptr)) {
    refuse(format("collective %d of %llu elements: %s is NULL", call.kind,
                  static_cast<unsigned long long>(call.count),
                  sends && call.send == nullptr ? "send" : "receive"));
  }
  const bool known = call.memory_kind == RT_MEMORY_PINNED_HOST ||
                     (call.memory_kind == RT_MEMORY_DEVICE && in_device_memory(team, call));
  if (!known || call.stream != nullptr) {
    refuse(
        format("collective %d of %llu elements in memory of kind %d%s; this MPI reads host memory "
               "(kind %d), without a stream, and that of devices as its capabilities say",
               call.kind, static_cast<unsigned long long>(call.count), call.memory_kind,
               call.stream != nullptr ? " on a stream" : "", RT_MEMORY_PINNED_HOST),
        RT_ERROR_UNSUPPORTED);
  }
}

// Collective. Returns nullptr on all ranks if any of them does not want to share memory or cannot
// open the segment that rank 0 has made.
std::shared_ptr<shared_memory::HostCollectives> share_memory(const Team& team) {
  // For the reason of the ring, no rank shares memory if MPI accesses device memory.
  const bool wants = team.limits.shared_memory && !team.limits.device_memory;
  shared_memory::Segment segment;
  const std::size_t bytes = shared_memory::HostCollectives::segment_bytes(team.size);
  if (team.rank == 0 && wants) segment = shared_memory::Segment::make(bytes);
  shared_memory::SegmentCard card = segment.card();
  check(MPI_Bcast(&card, sizeof(card), MPI_BYTE, 0, team.comm), "MPI_Bcast");
  if (team.rank != 0 && wants) segment = shared_memory::Segment::open(card, bytes);
  int all_share = segment ? 1 : 0;
  check(MPI_Allreduce(MPI_IN_PLACE, &all_share, 1, MPI_INT, MPI_MIN, team.comm), "MPI_Allreduce");
  if (all_share == 0) return nullptr;
  segment.close_file();
  return std::make_shared<shared_memory::HostCollectives>(std::move(segment), team.rank, team.size);
}

}  // namespace

Team team_of(MPI_Comm comm, const Limits& limits) {
  Team team{.comm = comm, .limits = limits};
  check(MPI_Comm_rank(comm, &team.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(comm, &team.size), "MPI_Comm_size");
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
        "MPI_Comm_split_type");
  int ranks_of_host = 0;
  check(MPI_Comm_size(host, &ranks_of_host), "MPI_Comm_size");
  check(MPI_Comm_free(&host), "MPI_Comm_free");
  // The ranks are on several hosts if and only if this host has fewer ranks than the team; the test
  // gives the same answer on every rank, also if hosts differ in their number of ranks. The ring
  // adds in host memory, and all ranks must choose the same algorithm. So no rank uses the ring if
  // MPI accesses device memory, wherever the data of a call are.
  team.ring = !limits.device_memory &&
              (limits.ring == Limits::Ring::kAlways ||
               (limits.ring == Limits::Ring::kBetweenHosts && ranks_of_host < team.size));
  if (team.size > 1 && ranks_of_host == team.size) team.host_collectives = share_memory(team);
  return team;
}

MPI_Datatype mpi_type(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT32:
      return MPI_FLOAT;
    case RT_FLOAT64:
      return MPI_DOUBLE;
    case RT_FLOAT16:
    case RT_BFLOAT16:
      return MPI_UINT16_T;
    case RT_INT32:
      return MPI_INT32_T;
    case RT_INT64:
      return MPI_INT64_T;
    case RT_UINT8:
      return MPI_UINT8_T;
    case RT_INT8:
      return MPI_INT8_T;
    default:
      return MPI_DATATYPE_NULL;
  }
}

void check_call(const Team& team, const rt_collective& call) {
  if (call.kind < RT_ALL_REDUCE || call.kind > RT_BARRIER) {
    refuse(format("collective %d; expected 1 to %d", call.kind, RT_BARRIER));
  }
  if (call.kind == RT_BARRIER) return;
  if (rt::sdk::dtype_bytes(call.dtype) == 0) {
    refuse("elements of " + rt::sdk::to_string(call.dtype), RT_ERROR_UNSUPPORTED);
  }
  if (rt::sdk::reduces(call.kind) && (call.reduction < RT_SUM || call.reduction > RT_MAX)) {
    refuse(format("reduction %d; expected %d to %d", call.reduction, RT_SUM, RT_MAX));
  }
  if (rt::sdk::has_peer(call.kind) && (call.peer < 0 || call.peer >= team.size)) {
    refuse(format("collective %d with peer %d; expected 0 to %d", call.kind, call.peer,
                  team.size - 1));
  }
  check_buffers(team, call);
}

void carry_out(const Team& team, const rt_collective& call) {
  if (call.count == 0) return;
  switch (call.kind) {
    case RT_ALL_REDUCE:
    case RT_REDUCE:
      return reduce(team, call);
    case RT_BROADCAST:
      return broadcast(team, call);
    default:
      return exchange(team, call);
  }
}

}  // namespace collectives::mpi
