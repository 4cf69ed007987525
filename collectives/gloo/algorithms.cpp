// Maps each collective to exchanges between pairs of ranks or to an algorithm of Gloo.
#include "algorithms.h"

#include <gloo/allgather.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>

#include <cstring>

#include "reduction.h"

namespace collectives::gloo {
namespace {

using Bytes = uint8_t;

// An all-reduce in which every rank sends at most this many bytes runs in one exchange instead of
// two: each rank sends its whole vector to all others, and every rank computes the whole result.
constexpr std::size_t kWholeBytes = 16 * 1024;
constexpr std::size_t kWholeBytesOfTwo = 1024 * 1024;  // with two ranks

std::size_t size_of(const Mesh& mesh) { return static_cast<std::size_t>(mesh.size); }
std::size_t rank_of(const Mesh& mesh) { return static_cast<std::size_t>(mesh.rank); }
std::size_t data_bytes(const rt_collective& call) { return call.count * bytes_of(call.dtype); }

// Splits a vector into one range for each rank; their lengths differ by at most one element.
std::vector<Range> equal_parts(std::size_t count, std::size_t ranks) {
  std::vector<Range> parts(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    parts[r].begin = count * r / ranks;
    parts[r].count = count * (r + 1) / ranks - parts[r].begin;
  }
  return parts;
}

char* at(void* memory, std::size_t bytes) { return static_cast<char*>(memory) + bytes; }

void all_reduce(Mesh& mesh, const rt_collective& call) {
  const std::size_t ranks = size_of(mesh);
  const std::size_t limit = ranks <= 2 ? kWholeBytesOfTwo : kWholeBytes / (ranks - 1);
  if (data_bytes(call) <= limit) {
    Reduction(mesh, call, std::vector<Range>(ranks, {0, call.count})).run(call.receive);
    return;
  }
  const auto parts = equal_parts(call.count, ranks);
  char* own = at(call.receive, parts[rank_of(mesh)].begin * bytes_of(call.dtype));
  Reduction(mesh, call, parts).run_and_share(own, call.receive, -1);
}

void reduce_scatter(Mesh& mesh, const rt_collective& call) {
  std::vector<Range> parts(size_of(mesh));
  for (std::size_t r = 0; r < parts.size(); ++r) parts[r] = {r * call.count, call.count};
  Reduction(mesh, call, parts).run(call.receive);
}

void reduce(Mesh& mesh, const rt_collective& call) {
  const bool is_root = call.peer == mesh.rank;
  const auto parts = equal_parts(call.count, size_of(mesh));
  const Range& own = parts[rank_of(mesh)];
  const std::size_t element = bytes_of(call.dtype);
  std::unique_ptr<char[]> scratch;
  if (!is_root) scratch = std::make_unique_for_overwrite<char[]>(own.count * element);
  char* result = is_root ? at(call.receive, own.begin * element) : scratch.get();
  Reduction(mesh, call, parts).run_and_share(result, is_root ? call.receive : nullptr, call.peer);
}

void all_gather(const std::shared_ptr<Mesh>& mesh, const rt_collective& call) {
  const std::size_t bytes = data_bytes(call);
  ::gloo::AllgatherOptions options(mesh);
  if (call.send != at(call.receive, rank_of(*mesh) * bytes)) {
    options.setInput(static_cast<Bytes*>(const_cast<void*>(call.send)), bytes);
  }
  options.setOutput(static_cast<Bytes*>(call.receive), bytes * size_of(*mesh));
  ::gloo::allgather(options);
}

void broadcast(const std::shared_ptr<Mesh>& mesh, const rt_collective& call) {
  ::gloo::BroadcastOptions options(mesh);
  options.setRoot(call.peer);
  if (mesh->rank == call.peer && call.send != call.receive) {
    options.setInput(static_cast<Bytes*>(const_cast<void*>(call.send)), data_bytes(call));
  }
  options.setOutput(static_cast<Bytes*>(call.receive), data_bytes(call));
  ::gloo::broadcast(options);
}

void all_to_all(const std::shared_ptr<Mesh>& mesh, const rt_collective& call) {
  const std::size_t bytes = data_bytes(call) * size_of(*mesh);
  std::unique_ptr<Bytes[]> copy;
  auto* send = static_cast<Bytes*>(const_cast<void*>(call.send));
  if (call.send == call.receive) {
    copy = std::make_unique_for_overwrite<Bytes[]>(bytes);
    std::memcpy(copy.get(), call.send, bytes);
    send = copy.get();
  }
  ::gloo::AlltoallOptions options(mesh);
  options.setInput(send, bytes);
  options.setOutput(static_cast<Bytes*>(call.receive), bytes);
  ::gloo::alltoall(options);
}

}  // namespace

void carry_out(const std::shared_ptr<Mesh>& mesh, const rt_collective& call) {
  if (call.kind == RT_BARRIER) {
    ::gloo::BarrierOptions options(mesh);
    ::gloo::barrier(options);
    return;
  }
  if (call.count == 0) return;  // count is 0 on every rank, so no rank waits
  switch (call.kind) {
    case RT_ALL_REDUCE:
      return all_reduce(*mesh, call);
    case RT_REDUCE_SCATTER:
      return reduce_scatter(*mesh, call);
    case RT_ALL_GATHER:
      return all_gather(mesh, call);
    case RT_BROADCAST:
      return broadcast(mesh, call);
    case RT_REDUCE:
      return reduce(*mesh, call);
    default:
      return all_to_all(mesh, call);
  }
}

}  // namespace collectives::gloo
