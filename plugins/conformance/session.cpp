// Starts collectives on buffers with guards, and compares what has arrived.
#include "plugins/conformance/session.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "plugins/conformance/expectation.h"
#include "plugins/host/text.h"
#include "rt/sdk/operation.h"

namespace plugins::conformance {
namespace {

constexpr uint64_t kGuardOfSession = 64;
constexpr auto kGuard = std::byte{0xA5};

uint64_t bytes_of(const Call& call, uint64_t count) {
  return count * rt::sdk::dtype_bytes(call.dtype);
}

bool shares_memory(const Call& call, uint64_t sent, uint64_t received) {
  return call.in_place && sent > 0 && received > 0;
}

}  // namespace

Session::Session(const CommunicatorWorld& world)
    : world_(world), team_{world.communicator, world.rank, std::vector<int32_t>(world.size)} {
  std::iota(team_.members.begin(), team_.members.end(), 0);
  rows_ = host::list_capabilities(world.communicator->plugin());
  flags_ = host::communicator_properties(world.communicator->plugin()).flags;
}

int32_t Session::memory_kind() const {
  return world_.device ? RT_MEMORY_DEVICE : RT_MEMORY_PINNED_HOST;
}

bool Session::claims(const Call& call) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const rt_comm_capability& row) {
    if (row.collective != call.kind) return false;
    if (call.kind == RT_BARRIER) return true;
    return (row.dtypes & RT_DTYPE_BIT(call.dtype)) != 0 &&
           (!has_reduction(call.kind) || (row.reductions >> call.reduction & 1u) != 0) &&
           (row.memory_kinds >> memory_kind() & 1u) != 0 &&
           (!call.in_place || (row.flags & RT_COMM_IN_PLACE) != 0);
  });
}

void Session::require(const Call& call) const {
  if (claims(call)) return;
  throw Skip("not claimed: " + describe(call) +
             (memory_kind() == RT_MEMORY_DEVICE ? " in device memory" : " in host memory"));
}

void Session::require_ranks(int32_t smallest) const {
  if (world_.size >= smallest) return;
  throw Skip(rt::sdk::format("needs %d ranks, there are %d", smallest, world_.size));
}

void Session::expect(bool holds, const std::string& otherwise) {
  if (!holds) findings_.push_back(otherwise);
}

std::optional<Team> Session::split(const Team& parent, const std::vector<int32_t>& colors,
                                   const std::vector<int32_t>& keys) {
  const auto self = static_cast<std::size_t>(parent.rank);
  auto communicator = parent.communicator->split(colors[self], keys[self], world_.timeout);
  expect((communicator != nullptr) == (colors[self] >= 0),
         "split: a communicator where there is no colour, or none where there is one");
  if (!communicator) return std::nullopt;
  std::vector<std::pair<int32_t, int32_t>> order;  // (key, rank in the parent)
  for (int32_t rank = 0; rank < parent.size(); ++rank) {
    if (colors[rank] == colors[self]) order.emplace_back(keys[rank], rank);
  }
  std::sort(order.begin(), order.end());
  Team team{std::move(communicator), 0, {}};
  for (const auto& [key, rank] : order) {
    if (rank == parent.rank) team.rank = team.size();
    team.members.push_back(parent.members[rank]);
  }
  return team;
}

CommunicatorBuffer::CommunicatorBuffer(host::Device* device, uint64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  host_.assign(bytes + kGuardOfSession, std::byte{0xFF});
  std::fill(host_.begin() + static_cast<std::ptrdiff_t>(bytes), host_.end(), kGuard);
  if (device == nullptr) return;
  device_ = device->shared_from_this();
  memory_ = device->allocate(host_.size());
}

std::byte* CommunicatorBuffer::data() const {
  if (bytes_ == 0) return nullptr;
  return device_ ? static_cast<std::byte*>(memory_.data()) : const_cast<std::byte*>(host_.data());
}

void CommunicatorBuffer::upload() {
  if (!device_) return;
  host::Stream stream = device_->create_stream();
  stream.copy(memory_.data(), host_.data(), host_.size());
  stream.synchronize();
}

bool CommunicatorBuffer::download() {
  if (device_) {
    host::Stream stream = device_->create_stream();
    stream.copy(host_.data(), memory_.data(), host_.size());
    stream.synchronize();
  }
  return std::all_of(host_.begin() + static_cast<std::ptrdiff_t>(bytes_), host_.end(),
                     [](std::byte b) { return b == kGuard; });
}

uint64_t Exchange::sent_count() const {
  const auto ranks = static_cast<uint64_t>(team_.size());
  switch (call_.kind) {
    case RT_REDUCE_SCATTER:
    case RT_ALL_TO_ALL:
      return ranks * call_.count;
    case RT_BROADCAST:
      return team_.rank == call_.peer ? call_.count : 0;
    case RT_RECEIVE:
    case RT_BARRIER:
      return 0;
    default:
      return call_.count;
  }
}

uint64_t Exchange::received_count() const {
  const auto ranks = static_cast<uint64_t>(team_.size());
  switch (call_.kind) {
    case RT_ALL_GATHER:
    case RT_ALL_TO_ALL:
      return ranks * call_.count;
    case RT_REDUCE:
      return team_.rank == call_.peer ? call_.count : 0;
    case RT_SEND:
    case RT_BARRIER:
      return 0;
    default:
      return call_.count;
  }
}

Exchange::Exchange(Session& session, const Team& team, const Call& call)
    : session_(session),
      team_(team),
      call_(call),
      send_(session.world().device.get(),
            shares_memory(call, sent_count(), received_count()) ? 0 : bytes_of(call, sent_count())),
      receive_(session.world().device.get(),
               bytes_of(call, shares_memory(call, sent_count(), received_count())
                                  ? std::max(sent_count(), received_count())
                                  : received_count())) {
  const bool shared = shares_memory(call, sent_count(), received_count());
  const uint64_t own_part = static_cast<uint64_t>(team.rank) * call.count;
  if (shared && call.kind == RT_ALL_GATHER) send_offset_ = own_part;
  if (shared && call.kind == RT_REDUCE_SCATTER) receive_offset_ = own_part;
  CommunicatorBuffer& source = shared ? receive_ : send_;
  fill_sent(call.dtype, team.members[static_cast<std::size_t>(team.rank)], team.size(),
            sent_count(), source.host().data() + bytes_of(call, send_offset_));
  send_.upload();
  receive_.upload();
}

void Exchange::start() {
  const bool shared = shares_memory(call_, sent_count(), received_count());
  const std::byte* send = shared ? receive_.data() + bytes_of(call_, send_offset_) : send_.data();
  std::byte* receive =
      received_count() > 0 ? receive_.data() + bytes_of(call_, receive_offset_) : nullptr;
  rt_collective collective =
      host::make_collective(call_.kind, call_.dtype, send, receive, call_.count, call_.reduction);
  collective.peer = call_.peer;
  collective.memory_kind = session_.memory_kind();
  work_ = team_.communicator->enqueue(collective);
}

void Exchange::check() {
  const std::string who = describe(call_) + " on rank " + std::to_string(team_.rank) + " of " +
                          std::to_string(team_.size());
  const bool guards = send_.download() & receive_.download();
  session_.expect(guards, who + ": wrote behind the end of a buffer");
  if (received_count() > 0) {
    const auto wrong = difference(
        team_, call_, receive_.host().data() + bytes_of(call_, receive_offset_), received_count());
    session_.expect(!wrong, who + ": " + wrong.value_or(""));
  }
  if (send_.data() == nullptr) return;
  Bytes before(bytes_of(call_, sent_count()));
  fill_sent(call_.dtype, team_.members[static_cast<std::size_t>(team_.rank)], team_.size(),
            sent_count(), before.data());
  session_.expect(std::equal(before.begin(), before.end(), send_.host().begin()),
                  who + ": changed the data that it was to send");
}

void Exchange::finish() {
  wait(session_.world().timeout);
  check();
}

void Exchange::run() {
  start();
  finish();
}

std::optional<host::Error> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const host::Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace plugins::conformance
