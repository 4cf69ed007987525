// Maps each collective to exchanges between pairs of ranks or to an algorithm of Gloo.
#include "algorithms.h"

#include <gloo/allgather.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "reduction.h"

namespace collectives::gloo {
namespace {

using Bytes = uint8_t;
using shared_memory::HostCall;
using shared_memory::Stage;

// An all-reduce in which every rank sends at most this many bytes runs in one exchange instead of
// two: each rank sends its whole vector to all others, and every rank computes the whole result.
constexpr std::size_t kWholeBytes = 16 * 1024;
constexpr std::size_t kWholeBytesOfTwo = 1024 * 1024;  // with two ranks
// The slots of Gloo's own collectives begin with 0x01 to 0x08.
constexpr uint64_t kChunkSlot = uint64_t{0x44} << 56;
// Bytes of a vector for each rank of a machine that talks to other machines: smaller messages take
// more time than they save.
constexpr std::size_t kLeastPartBytes = 32 * 1024;

std::size_t size_of(const Mesh& mesh) { return static_cast<std::size_t>(mesh.size); }
std::size_t rank_of(const Mesh& mesh) { return static_cast<std::size_t>(mesh.rank); }
std::size_t data_bytes(const rt_collective& call) { return call.count * bytes_of(call.dtype); }

char* at(void* memory, std::size_t bytes) { return static_cast<char*>(memory) + bytes; }

// Every one of `ranks` gets the sum of the vectors of `count` elements of all of them.
void exchange(Mesh& mesh, std::vector<int> ranks, const Sum& sum, std::size_t count, void* whole) {
  const std::size_t size = ranks.size();
  const std::size_t limit = size <= 2 ? kWholeBytesOfTwo : kWholeBytes / (size - 1);
  if (count * sum.element <= limit)
    return Reduction(mesh, std::move(ranks), sum, std::vector<Range>(size, {0, count})).run(whole);
  const auto parts = equal_parts(count, size);
  const auto place = std::find(ranks.begin(), ranks.end(), mesh.rank) - ranks.begin();
  void* const own = at(whole, parts[static_cast<std::size_t>(place)].begin * sum.result_element);
  Reduction(mesh, std::move(ranks), sum, parts).run_and_share(own, whole, -1);
}

std::vector<int> all_ranks(const Mesh& mesh) {
  std::vector<int> ranks(size_of(mesh));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Sum sum_of(const Mesh& mesh, const rt_collective& call) {
  const std::size_t element = bytes_of(call.dtype);
  return {call.send, combine_of(call.dtype, call.reduction), element, element, size_of(mesh)};
}

// The sum of what machines have computed.
Sum sum_of_hosts(const Mesh& mesh, const rt_collective& call, const void* partial) {
  return {partial, combine_of(call.dtype, call.reduction, Stage::kLast),
          shared_memory::partial_bytes_of(call.dtype), bytes_of(call.dtype), size_of(mesh)};
}

// Whether ranks are on several machines, and some machine has several.
bool has_hosts(Mesh& mesh) {
  return mesh.hosts_share() && !mesh.hosts().is_one() && mesh.hosts().ranks.size() < size_of(mesh);
}

// The ranks with the place of this one on each machine.
std::vector<int> ranks_with_same_place(const Hosts& hosts) {
  std::vector<int> same;
  for (const auto& ranks : hosts.ranks) same.push_back(ranks[hosts.index]);
  return same;
}

// Carries out what the ranks of this machine do; one rank alone does it by itself.
void on_host(Mesh& mesh, HostCall call) {
  shared_memory::HostCollectives* const host = mesh.host_collectives();
  if (host != nullptr) return host->drive(*host->start(std::move(call)));
  if (call.kind != HostCall::Kind::kReduce) return;
  const Range part = call.parts[0];
  const void* source = static_cast<const char*>(call.send) + part.begin * bytes_of(call.dtype);
  call.combine(call.result, &source, 1, part.count, 1);
}

// The first `members` of the parts are ranges of a vector, the other ones are empty.
std::vector<Range> parts_of_members(std::size_t count, std::size_t members, std::size_t ranks) {
  std::vector<Range> parts = equal_parts(count, members);
  parts.resize(ranks, {count, 0});
  return parts;
}

// The ranks of a machine add their vectors, each a part of it; each exchanges its part with those
// that have the same part on the other machines, and then the ranks of a machine tell each other
// the results. So a machine sends its part of the sum once to each other one, however many ranks it
// has, as NCCL and MPI do it.
void all_reduce_over_hosts(Mesh& mesh, const rt_collective& call) {
  const Hosts& hosts = mesh.hosts();
  std::size_t members =
      std::clamp<std::size_t>(data_bytes(call) / kLeastPartBytes, 1, size_of(mesh));
  for (const auto& ranks : hosts.ranks) members = std::min(members, ranks.size());
  const auto parts = parts_of_members(call.count, members, hosts.mine().size());
  const Range part = parts[hosts.index];
  const std::size_t partial_bytes = shared_memory::partial_bytes_of(call.dtype);
  char* const partial = mesh.scratch(Mesh::kBetweenSteps, part.count * partial_bytes);
  on_host(mesh, {.kind = HostCall::Kind::kReduce,
                 .collective = call.kind,
                 .dtype = call.dtype,
                 .reduction = call.reduction,
                 .count = call.count,
                 .send = call.send,
                 .result = partial,
                 .combine = combine_of(call.dtype, call.reduction, Stage::kFirst),
                 .result_bytes = partial_bytes,
                 .parts = parts});
  char* const result = at(call.receive, part.begin * bytes_of(call.dtype));
  if (hosts.index < members) {
    exchange(mesh, ranks_with_same_place(hosts), sum_of_hosts(mesh, call, partial), part.count,
             result);
  }
  on_host(mesh, {.kind = HostCall::Kind::kShare,
                 .collective = call.kind,
                 .dtype = call.dtype,
                 .count = call.count,
                 .send = result,
                 .result = call.receive,
                 .parts = parts});
}

void all_reduce(Mesh& mesh, const rt_collective& call) {
  if (has_hosts(mesh)) return all_reduce_over_hosts(mesh, call);
  exchange(mesh, all_ranks(mesh), sum_of(mesh, call), call.count, call.receive);
}

// Whether ranks are on several machines with the same number of them.
bool has_equal_hosts(Mesh& mesh) {
  const Hosts& hosts = mesh.hosts();
  return has_hosts(mesh) && std::all_of(hosts.ranks.begin(), hosts.ranks.end(), [&](const auto& h) {
           return h.size() == hosts.mine().size();
         });
}

// The chunks of the ranks of one machine in the vector of all.
std::vector<Range> chunks_of(const std::vector<int>& ranks, std::size_t count) {
  std::vector<Range> parts;
  for (const int rank : ranks) parts.push_back({static_cast<std::size_t>(rank) * count, count});
  return parts;
}

// As all_reduce_over_hosts: each rank adds what its machine has for the ranks with its place on the
// other machines, and exchanges that with them.
void reduce_scatter_over_hosts(Mesh& mesh, const rt_collective& call) {
  const Hosts& hosts = mesh.hosts();
  const std::size_t partial_bytes = shared_memory::partial_bytes_of(call.dtype);
  char* const partial =
      mesh.scratch(Mesh::kBetweenSteps, hosts.ranks.size() * call.count * partial_bytes);
  const auto parts = equal_parts(hosts.ranks.size() * call.count, hosts.ranks.size());
  for (std::size_t h = 0; h < hosts.ranks.size(); ++h) {
    on_host(mesh, {.kind = HostCall::Kind::kReduce,
                   .collective = call.kind,
                   .dtype = call.dtype,
                   .reduction = call.reduction,
                   .count = call.count * size_of(mesh),
                   .send = call.send,
                   .result = at(partial, parts[h].begin * partial_bytes),
                   .combine = combine_of(call.dtype, call.reduction, Stage::kFirst),
                   .result_bytes = partial_bytes,
                   .parts = chunks_of(hosts.ranks[h], call.count)});
  }
  Reduction(mesh, ranks_with_same_place(hosts), sum_of_hosts(mesh, call, partial), parts)
      .run(call.receive);
}

void reduce_scatter(Mesh& mesh, const rt_collective& call) {
  if (has_equal_hosts(mesh)) return reduce_scatter_over_hosts(mesh, call);
  std::vector<int> ranks = all_ranks(mesh);
  const auto parts = chunks_of(ranks, call.count);
  Reduction(mesh, std::move(ranks), sum_of(mesh, call), parts).run(call.receive);
}

void reduce(Mesh& mesh, const rt_collective& call) {
  const bool is_root = call.peer == mesh.rank;
  const auto parts = equal_parts(call.count, size_of(mesh));
  const Range& own = parts[rank_of(mesh)];
  const std::size_t element = bytes_of(call.dtype);
  std::unique_ptr<char[]> scratch;
  if (!is_root) scratch = std::make_unique_for_overwrite<char[]>(own.count * element);
  char* result = is_root ? at(call.receive, own.begin * element) : scratch.get();
  Reduction(mesh, all_ranks(mesh), sum_of(mesh, call), parts)
      .run_and_share(result, is_root ? call.receive : nullptr, call.peer);
}

// Each rank exchanges its chunk with the ranks with its place on the other machines, and those of a
// machine tell each other what they have got.
void all_gather_over_hosts(Mesh& mesh, const rt_collective& call) {
  const Hosts& hosts = mesh.hosts();
  const std::size_t bytes = data_bytes(call), size = size_of(mesh);
  char* const own = at(call.receive, rank_of(mesh) * bytes);
  if (call.send != own) std::memcpy(own, call.send, bytes);
  const Buffer whole = mesh.createUnboundBuffer(call.receive, size * bytes);
  for (const int rank : ranks_with_same_place(hosts)) {
    if (rank == mesh.rank) continue;
    whole->recv(rank, kChunkSlot, static_cast<std::size_t>(rank) * bytes, bytes);
    whole->send(rank, kChunkSlot, rank_of(mesh) * bytes, bytes);
  }
  for (std::size_t i = 1; i < hosts.ranks.size(); ++i) whole->waitRecv();
  for (const auto& ranks : hosts.ranks) {
    on_host(mesh, {.kind = HostCall::Kind::kShare,
                   .collective = call.kind,
                   .dtype = call.dtype,
                   .count = call.count * size,
                   .send = at(call.receive, static_cast<std::size_t>(ranks[hosts.index]) * bytes),
                   .result = call.receive,
                   .parts = chunks_of(ranks, call.count)});
  }
  for (std::size_t i = 1; i < hosts.ranks.size(); ++i) whole->waitSend();
}

void all_gather(const std::shared_ptr<Mesh>& mesh, const rt_collective& call) {
  if (has_equal_hosts(*mesh)) return all_gather_over_hosts(*mesh, call);
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
