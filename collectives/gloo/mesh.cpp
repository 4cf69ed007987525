// Publishes this rank's endpoint, collects those of the others, and opens the connections.
#include "mesh.h"

#include <gloo/common/error.h>
#include <gloo/common/logging.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "collectives/mesh/listener.h"
#include "rt/sdk/error.h"

namespace collectives::gloo {
namespace {

using rt::sdk::Error;
using rt::sdk::format;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr uint64_t kGreetingSlot = uint64_t{0x51} << 56;
constexpr uint64_t kLeaveSlot = uint64_t{0x52} << 56;
constexpr uint64_t kAcknowledgeSlot = uint64_t{0x54} << 56;
constexpr uint64_t kSegmentSlot = uint64_t{0x53} << 56;
constexpr uint64_t kSharesSlot = uint64_t{0x55} << 56;
// A rank says by one of these whether it has opened the segment of its machine, or needs none.
constexpr char kApart = 1, kShares = 2;

Milliseconds left(mesh::Deadline deadline) {
  const auto rest = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
  return std::max(rest, Milliseconds(1));  // 0 means "no timeout" in Gloo
}

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

Error timeout_error(const Membership& membership, const std::string& ranks, const char* what) {
  return Error(
      RT_ERROR_TIMEOUT,
      format("communicator '%s' of %d ranks: rank %d waited for these ranks, which %s in "
             "time: %s; see whether they run, or give init_timeout_s a larger value",
             membership.prefix.c_str(), membership.size, membership.rank, what, ranks.c_str()),
      RT_SCOPE_COMMUNICATOR);
}

Error lost_error(const Membership& membership, const std::string& ranks, const char* why) {
  return Error(
      RT_ERROR_COMMUNICATION,
      format("communicator '%s' of %d ranks: rank %d lost these ranks while it joined: "
             "%s (%s); see their output",
             membership.prefix.c_str(), membership.size, membership.rank, ranks.c_str(), why),
      RT_SCOPE_COMMUNICATOR);
}

std::string key_of(const Membership& membership, int rank) {
  return membership.prefix + "/" + std::to_string(rank);
}

void publish(const rt_host& host, const Membership& membership, const mesh::Endpoint& endpoint) {
  rt_error error{};
  error.size = sizeof(error);
  if (host.kv_set(host.context, key_of(membership, membership.rank).c_str(), &endpoint,
                  sizeof(endpoint), &error)) {
    throw Error(RT_ERROR_COMMUNICATION, format("cannot publish the address of rank %d: %s",
                                               membership.rank, error.message));
  }
}

// Fetches the endpoint of one rank. Returns false if it has not come in time.
bool fetch(const rt_host& host, const Membership& membership, int rank, mesh::Deadline deadline,
           mesh::Endpoint& value) {
  uint64_t size = sizeof(value);
  const auto rest = std::chrono::nanoseconds(deadline - Clock::now()).count();
  rt_error error{};
  error.size = sizeof(error);
  const rt_status status = host.kv_get(host.context, key_of(membership, rank).c_str(), &value,
                                       &size, std::max<int64_t>(rest, 0), &error);
  if (status == RT_ERROR_TIMEOUT) return false;
  if (status != RT_OK) throw lost_error(membership, rank_name(rank), error.message);
  if (size != sizeof(value) || value.size != membership.size)
    throw lost_error(membership, rank_name(rank),
                     format("it says that there are %d ranks", value.size).c_str());
  return true;
}

// The endpoints of all ranks but `own`, by rank.
std::vector<mesh::Endpoint> fetch_each(const rt_host& host, const Membership& membership,
                                       mesh::Deadline deadline, const mesh::Endpoint& own) {
  std::vector<mesh::Endpoint> all(static_cast<std::size_t>(membership.size), own);
  std::string missing;
  for (int rank = 0; rank < membership.size; ++rank)
    if (rank != membership.rank &&
        !fetch(host, membership, rank, deadline, all[static_cast<std::size_t>(rank)]))
      append(missing, rank_name(rank));
  if (!missing.empty()) throw timeout_error(membership, missing, "did not come");
  return all;
}

// The endpoints of all ranks. Rank 0 fetches each of them and publishes all, so that the others ask
// for one key instead of one for each rank.
std::vector<mesh::Endpoint> fetch_all(const rt_host& host, const Membership& membership,
                                      mesh::Deadline deadline, const mesh::Endpoint& own) {
  const std::string key = membership.prefix + "/all";
  rt_error error{};
  error.size = sizeof(error);
  if (membership.rank == 0) {
    std::vector<mesh::Endpoint> all = fetch_each(host, membership, deadline, own);
    if (host.kv_set(host.context, key.c_str(), all.data(), all.size() * sizeof(own), &error))
      throw Error(RT_ERROR_COMMUNICATION,
                  format("cannot publish the addresses of all ranks: %s", error.message));
    return all;
  }
  std::vector<mesh::Endpoint> all(static_cast<std::size_t>(membership.size));
  uint64_t size = all.size() * sizeof(own);
  const auto rest = std::chrono::nanoseconds(deadline - Clock::now()).count();
  const rt_status status =
      host.kv_get(host.context, key.c_str(), all.data(), &size, std::max<int64_t>(rest, 0), &error);
  if (status == RT_OK && size == all.size() * sizeof(own)) return all;
  // This names the ranks that have not come, or one that says something else.
  fetch_each(host, membership, deadline, own);
  throw lost_error(membership, rank_name(0),
                   status == RT_OK ? "it has published something else than the addresses of all"
                                   : error.message);
}

struct Peers {
  std::vector<mesh::Socket> sockets;  // by rank
  std::vector<mesh::PeerMemory> memories;
  Hosts hosts;
};

// Ranks that do not know their machine have one each.
Hosts hosts_of(const std::vector<mesh::Endpoint>& endpoints, int rank) {
  Hosts hosts;
  std::vector<uint64_t> machines;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    const uint64_t machine = endpoints[i].machine;
    const auto known = std::find(machines.begin(), machines.end(), machine);
    const bool is_new = machine == 0 || known == machines.end();
    const std::size_t host =
        is_new ? machines.size() : static_cast<std::size_t>(known - machines.begin());
    if (is_new) {
      machines.push_back(machine);
      hosts.ranks.emplace_back();
    }
    if (static_cast<int>(i) == rank) {
      hosts.own = host;
      hosts.index = hosts.ranks[host].size();
    }
    hosts.ranks[host].push_back(static_cast<int>(i));
  }
  return hosts;
}

Peers connect(const rt_host& host, const Membership& membership, int name, const Device& device,
              const mesh::Token& token, mesh::Deadline deadline) {
  mesh::Listener listener(device.address, device.address_bytes, membership.rank, membership.size);
  mesh::Endpoint own = listener.endpoint();
  own.memory = token.card();
  own.machine = membership.ranks_per_host == 0
                    ? own.memory.machine
                    : static_cast<uint64_t>(name / membership.ranks_per_host) + 1;
  publish(host, membership, own);
  const std::vector<mesh::Endpoint> endpoints = fetch_all(host, membership, deadline, own);
  mesh::Listener::Connections made = listener.connect(endpoints, deadline);
  if (made.missing.empty()) {
    Peers peers{std::move(made.sockets), {}, hosts_of(endpoints, membership.rank)};
    for (const mesh::Endpoint& peer : endpoints) peers.memories.emplace_back(peer.memory);
    return peers;
  }
  std::string ranks;
  for (const int rank : made.missing) append(ranks, rank_name(rank));
  if (Clock::now() < deadline) throw lost_error(membership, ranks, made.why.c_str());
  const std::string why = made.why.empty() ? "" : " (" + made.why + ")";
  throw timeout_error(membership, ranks + why, "did not connect");
}

}  // namespace

void append(std::string& list, const std::string& item) {
  list += (list.empty() ? "" : ", ") + item;
}

Mesh::Mesh(const rt_host& host, const Membership& membership, int name, const Device& device,
           mesh::Deadline deadline)
    : ::gloo::Context(membership.rank, membership.size),
      place_(device),
      leave_reasons_(static_cast<std::size_t>(membership.size)) {
  Peers peers;
  peers.sockets.resize(1);
  if (size > 1) peers = connect(host, membership, name, device, token_, deadline);
  transport_ = std::make_shared<Transport>(device.progress, rank, std::move(peers.sockets),
                                           peers.memories, token_);
  transportContext_ = transport_;
  hosts_ = std::move(peers.hosts);
  if (size > 1) join(membership, deadline);
}

// Sends a byte to all ranks, and waits for those of all; `heard` is by rank.
void Mesh::tell_all(char mine, uint64_t slot, std::vector<char>& heard, mesh::Deadline deadline) {
  const auto send = transport_->make_lasting_buffer(&mine, 1);
  const auto receive = transport_->make_lasting_buffer(heard.data(), heard.size());
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    receive->recv(peer, slot, static_cast<std::size_t>(peer), 1);
    send->send(peer, slot);
  }
  for (int i = 0; i < size - 1; ++i) receive->waitRecv(left(deadline));
  for (int i = 0; i < size - 1; ++i) send->waitSend(left(deadline));
  heard[static_cast<std::size_t>(rank)] = mine;
}

// The first rank of each machine makes a segment and tells the others of its machine where it is.
// Then all ranks tell all whether they could open theirs.
void Mesh::share_memory(const Membership& membership, Missing& missing, mesh::Deadline deadline) {
  using shared_memory::Segment;
  const std::vector<int>& mine = hosts_.mine();
  const std::size_t bytes =
      shared_memory::HostCollectives::segment_bytes(static_cast<int>(mine.size()));
  Segment segment;
  shared_memory::SegmentCard card;
  const auto buffer = transport_->make_lasting_buffer(&card, sizeof(card));
  const std::size_t others = hosts_.index == 0 ? mine.size() - 1 : 0;
  if (hosts_.index == 0) {
    if (others > 0 && membership.shares_memory) segment = Segment::make(bytes);
    card = segment.card();
    for (std::size_t i = 1; i < mine.size(); ++i) buffer->send(mine[i], kSegmentSlot);
  } else {
    missing.only = mine[0];
    buffer->recv(mine[0], kSegmentSlot);
    buffer->waitRecv(left(deadline));
    missing.only.reset();
    if (membership.shares_memory) segment = Segment::open(card, bytes);
  }
  std::fill(missing.heard.begin(), missing.heard.end(), char{0});
  tell_all(mine.size() == 1 || segment ? kShares : kApart, kSharesSlot, missing.heard, deadline);
  for (std::size_t i = 0; i < others; ++i) buffer->waitSend(left(deadline));
  segment.close_file();
  hosts_share_ = std::count(missing.heard.begin(), missing.heard.end(), kShares) == size;
  if (hosts_share_ && mine.size() > 1)
    host_collectives_ = std::make_unique<shared_memory::HostCollectives>(
        std::move(segment), static_cast<int>(hosts_.index), static_cast<int>(mine.size()));
}

// All ranks have joined once all have sent a greeting. A rank posts the receives of notices of
// leaving before it sends its greeting, so that notices of leaving can be sent at any time
// afterwards.
void Mesh::join(const Membership& membership, mesh::Deadline deadline) {
  notices_ = transport_->createUnboundBuffer(leave_reasons_.data(),
                                             leave_reasons_.size() * sizeof(int32_t));
  acknowledgements_ = transport_->make_lasting_buffer(leave_reasons_.data(), 1);
  Missing missing{std::vector<char>(static_cast<std::size_t>(size)), std::nullopt};
  try {
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      notices_->recv(peer, kLeaveSlot, static_cast<std::size_t>(peer) * sizeof(int32_t),
                     sizeof(int32_t));
      acknowledgements_->send(peer, kAcknowledgeSlot);
    }
    tell_all(1, kGreetingSlot, missing.heard, deadline);
    if (hosts_.ranks.size() < static_cast<std::size_t>(size))
      share_memory(membership, missing, deadline);
  } catch (const ::gloo::IoException& e) {
    const bool late = Clock::now() >= deadline;
    std::string ranks;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank || (missing.only ? peer != *missing.only
                                        : missing.heard[static_cast<std::size_t>(peer)] != 0))
        continue;
      if (late || transport_->is_lost(peer)) append(ranks, rank_name(peer));
    }
    if (late) throw timeout_error(membership, ranks, "connected but did not greet");
    throw lost_error(membership, ranks, e.what());
  }
}

void Mesh::interrupt() {
  transport_->interrupt();
  if (host_collectives_) host_collectives_->interrupt();
}

void Mesh::has_left(int peer) {
  const std::vector<int>& mine = hosts_.mine();
  const auto place = std::find(mine.begin(), mine.end(), peer);
  if (host_collectives_ && place != mine.end())
    host_collectives_->leave(static_cast<int>(place - mine.begin()));
}

char* Mesh::scratch(Scratch which, std::size_t bytes) {
  auto& scratch = scratch_[which];
  if (bytes > scratch.bytes) {
    scratch.memory = std::make_unique_for_overwrite<char[]>(bytes);
    scratch.bytes = bytes;
  }
  return scratch.memory.get();
}

int32_t Mesh::leave_reason(int peer) {
  return std::atomic_ref(leave_reasons_[static_cast<std::size_t>(peer)]).load();
}

void Mesh::wait_leave_reason() { notices_->waitRecv(); }

// If a connection is closed while it holds unread data, its peer may lose data that it has not read
// yet. The connection is therefore closed only after the peer's I/O thread, which handles messages
// in order, has carried out a send that it keeps open for this purpose.
void Mesh::leave(int32_t leave_reason) {
  char answer = 0;
  const auto notice = transport_->make_lasting_buffer(&leave_reason, sizeof(leave_reason));
  std::vector<std::unique_ptr<::gloo::transport::UnboundBuffer>> answers;
  const auto try_with = [](const auto& body) {
    try {
      body();
    } catch (const ::gloo::Exception&) {  // this peer is gone, or the time has passed
    }
  };
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    try_with([&] { notice->send(peer, kLeaveSlot); });
    auto acknowledged = transport_->make_lasting_buffer(&answer, sizeof(answer));
    try_with([&] {
      acknowledged->recv(peer, kAcknowledgeSlot);
      answers.push_back(std::move(acknowledged));
    });
  }
  const mesh::Deadline deadline = Clock::now() + Milliseconds(200);
  for (const auto& acknowledged : answers)
    try_with([&] { acknowledged->waitRecv(left(deadline)); });
  transport_->close();
}

}  // namespace collectives::gloo
