// Simulates NCCL with ranks as threads, all of whose communicators are non-blocking. A call waits
// until all ranks of its communicator have made it; the last rank carries it out. The use of a
// communicator that was freed ends the process.
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "rt/sdk/float16.h"
#include "tests/doubles/cudart.h"

namespace {

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kReduce };

struct Call {
  Kind kind;
  const void* send;
  void* receive;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  int root;
  Pending done;
};

struct World;

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank = 0;
  std::atomic<bool> freed = false;
  // How often ncclCommGetAsyncError still answers that a call is in progress. It is no atomic, so
  // that ThreadSanitizer finds two threads that use the communicator at the same time.
  int unseen = 0;
  std::size_t calls = 0;
  std::atomic<ncclResult_t> state = ncclInProgress;
  std::size_t fails_at = 0;       // 0: never
  std::atomic<int> recorded = 0;  // calls in graphs that exist
};

namespace {

struct Transfer {
  void* memory;
  std::size_t bytes;
  Pending done;
};

struct Split {
  int color, key;
  ncclComm_t* result;
};

struct World {
  int size = 0, joined = 0;
  std::vector<ncclComm_t> members;
  std::map<std::size_t, std::vector<std::pair<int, Call>>> calls;       // by number; rank and call
  std::map<std::pair<int, int>, std::deque<Transfer>> sends, receives;  // by source and destination
  std::map<int, Split> splits;
};

std::mutex everything;  // guards all worlds
std::map<std::string, std::shared_ptr<World>> worlds;
std::vector<std::unique_ptr<ncclComm>> freed;  // their memory is kept, so that a later use is seen
thread_local int open_groups = 0;
thread_local std::vector<std::function<void()>> grouped;

void expect_alive(ncclComm_t comm, const char* call) {
  if (!comm->freed) return;
  std::fprintf(stderr, "double of NCCL: %s used a communicator that was freed\n", call);
  std::abort();
}

// NCCL_DOUBLE_SLOW: the microseconds that a call takes in the library.
void take_time() {
  const char* set = std::getenv("NCCL_DOUBLE_SLOW");
  if (set != nullptr) std::this_thread::sleep_for(std::chrono::microseconds(std::atoi(set)));
}

// Returns false if the library refuses the call, because an earlier one is still in progress.
bool begin(ncclComm_t comm, const char* call) {
  expect_alive(comm, call);
  take_time();
  expect_alive(comm, call);
  return comm->unseen == 0 && comm->state != ncclInProgress;
}

// The caller does not hold the lock.
ncclResult_t act_or_group(ncclComm_t comm, const std::function<void()>& act) {
  const auto started = [comm, act] {
    expect_alive(comm, "ncclGroupEnd");
    act();
    comm->unseen = 2;
  };
  if (open_groups > 0) {
    grouped.push_back(started);
    return ncclSuccess;
  }
  started();
  return ncclInProgress;
}

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
    case ncclInt64:
    case ncclUint64:
      return 8;
    case ncclFloat32:
    case ncclInt32:
    case ncclUint32:
      return 4;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

template <typename T>
T combine(ncclRedOp_t reduction, T a, T b) {
  if (reduction == ncclMin) return std::min(a, b);
  if (reduction == ncclMax) return std::max(a, b);
  return static_cast<T>(a + b);
}

// Element i of all ranks' operands, reduced in the type Wide.
template <typename Wide, typename Load, typename Store>
void reduce_with(const std::vector<const void*>& from, std::size_t begin, std::size_t count,
                 ncclRedOp_t reduction, void* to, Load load, Store store) {
  std::vector<Wide> results(count);
  for (std::size_t i = 0; i < count; ++i) {
    Wide sum = load(from[0], begin + i);
    for (std::size_t r = 1; r < from.size(); ++r)
      sum = combine(reduction, sum, load(from[r], begin + i));
    results[i] =
        reduction == ncclAvg ? static_cast<Wide>(sum / static_cast<Wide>(from.size())) : sum;
  }
  for (std::size_t i = 0; i < count; ++i) store(to, i, results[i]);
}

template <typename T>
void reduce_plain(const std::vector<const void*>& from, std::size_t begin, std::size_t count,
                  ncclRedOp_t reduction, void* to) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;
  reduce_with<Wide>(
      from, begin, count, reduction, to,
      [](const void* p, std::size_t i) { return static_cast<Wide>(static_cast<const T*>(p)[i]); },
      [](void* p, std::size_t i, Wide v) { static_cast<T*>(p)[i] = static_cast<T>(v); });
}

template <typename From, typename To>
void reduce_half(const std::vector<const void*>& from, std::size_t begin, std::size_t count,
                 ncclRedOp_t reduction, void* to, From widen, To narrow) {
  reduce_with<float>(
      from, begin, count, reduction, to,
      [&](const void* p, std::size_t i) { return widen(static_cast<const uint16_t*>(p)[i]); },
      [&](void* p, std::size_t i, float v) { static_cast<uint16_t*>(p)[i] = narrow(v); });
}

void reduce(ncclDataType_t type, const std::vector<const void*>& from, std::size_t begin,
            std::size_t count, ncclRedOp_t reduction, void* to) {
  switch (type) {
    case ncclFloat64:
      return reduce_plain<double>(from, begin, count, reduction, to);
    case ncclFloat32:
      return reduce_plain<float>(from, begin, count, reduction, to);
    case ncclFloat16:
      return reduce_half(from, begin, count, reduction, to, rt::sdk::from_float16,
                         rt::sdk::to_float16);
    case ncclBfloat16:
      return reduce_half(from, begin, count, reduction, to, rt::sdk::from_bfloat16,
                         rt::sdk::to_bfloat16);
    case ncclInt64:
      return reduce_plain<int64_t>(from, begin, count, reduction, to);
    case ncclInt32:
      return reduce_plain<int32_t>(from, begin, count, reduction, to);
    case ncclUint8:
      return reduce_plain<uint8_t>(from, begin, count, reduction, to);
    default:
      return reduce_plain<int8_t>(from, begin, count, reduction, to);
  }
}

void carry_out_reduction(std::vector<Call>& by_rank) {
  const Call& first = by_rank[0];
  const std::size_t size = by_rank.size(), bytes = first.count * bytes_of(first.type);
  const std::size_t parts = first.kind == Kind::kReduceScatter ? size : 1;
  std::vector<const void*> from;
  for (const Call& c : by_rank) from.push_back(c.send);
  // Operands may be in place, so all results are computed before any is written.
  std::vector<std::vector<char>> results(parts, std::vector<char>(bytes));
  for (std::size_t part = 0; part < parts; ++part) {
    reduce(first.type, from, part * first.count, first.count, first.reduction,
           results[part].data());
  }
  for (std::size_t r = 0; r < size; ++r) {
    if (first.kind == Kind::kReduce && static_cast<int>(r) != first.root) continue;
    if (bytes > 0) std::memcpy(by_rank[r].receive, results[parts > 1 ? r : 0].data(), bytes);
  }
}

void carry_out(std::vector<Call>& by_rank) {
  const Call& first = by_rank[0];
  const std::size_t size = by_rank.size(), bytes = first.count * bytes_of(first.type);
  if (first.kind == Kind::kAllGather || first.kind == Kind::kBroadcast) {
    std::vector<char> all;
    for (std::size_t r = 0; r < size; ++r) {
      if (first.kind == Kind::kBroadcast && static_cast<int>(r) != first.root) continue;
      const char* from = static_cast<const char*>(by_rank[r].send);
      all.insert(all.end(), from, from + bytes);
    }
    for (Call& c : by_rank) {
      if (!all.empty()) std::memcpy(c.receive, all.data(), all.size());
    }
  } else {
    carry_out_reduction(by_rank);
  }
  for (Call& c : by_rank) *c.done = true;
}

// The caller holds the lock.
void arrive(ncclComm_t comm, Call call) {
  World& world = *comm->world;
  const std::size_t number = comm->calls++;
  if (comm->fails_at > 0 && comm->calls >= comm->fails_at) {
    for (ncclComm_t member : world.members) member->state = ncclRemoteError;
    return;
  }
  auto& arrived = world.calls[number];
  arrived.emplace_back(comm->rank, call);
  if (arrived.size() < static_cast<std::size_t>(world.size)) return;
  std::sort(arrived.begin(), arrived.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Call> by_rank;
  for (auto& [rank, c] : arrived) by_rank.push_back(c);
  carry_out(by_rank);
  world.calls.erase(number);
}

// A call that is captured runs at each launch of the graph. The launch waits for the other ranks,
// or until the communicator is aborted: then the call ends without a result.
std::function<void()> recorded(ncclComm_t comm, const Call& call) {
  ++comm->recorded;
  const std::shared_ptr<void> reference(nullptr, [comm](void*) { --comm->recorded; });
  return [comm, call, reference] {
    Call again = call;
    again.done = std::make_shared<std::atomic<bool>>(false);
    {
      const std::lock_guard lock(everything);
      if (comm->freed) return;
      arrive(comm, again);
    }
    while (!*again.done && !comm->freed) std::this_thread::yield();
  };
}

ncclResult_t post(ncclComm_t comm, cudaStream_t stream, Call call) {
  if (!begin(comm, "a collective")) return ncclInvalidArgument;
  if (stream->capture) return act_or_group(comm, [=] { stream->record(recorded(comm, call)); });
  call.done = std::make_shared<std::atomic<bool>>(false);
  stream->add(call.done);
  return act_or_group(comm, [comm, call] {
    const std::lock_guard lock(everything);
    arrive(comm, call);
  });
}

ncclResult_t transfer(ncclComm_t comm, int peer, bool sends, void* memory, std::size_t bytes,
                      cudaStream_t stream) {
  if (!begin(comm, "a send or receive")) return ncclInvalidArgument;
  const Transfer mine{memory, bytes, std::make_shared<std::atomic<bool>>(false)};
  stream->add(mine.done);
  return act_or_group(comm, [=] {
    const std::lock_guard lock(everything);
    const std::pair<int, int> pair =
        sends ? std::pair(comm->rank, peer) : std::pair(peer, comm->rank);
    auto& waiting = sends ? comm->world->receives[pair] : comm->world->sends[pair];
    if (waiting.empty()) {
      (sends ? comm->world->sends : comm->world->receives)[pair].push_back(mine);
      return;
    }
    const Transfer theirs = waiting.front();
    waiting.pop_front();
    if (bytes > 0)
      std::memcpy(sends ? theirs.memory : memory, sends ? memory : theirs.memory, bytes);
    *mine.done = *theirs.done = true;
  });
}

std::size_t failing_call() {
  const char* set = std::getenv("NCCL_DOUBLE_FAIL");
  return set == nullptr ? 0 : static_cast<std::size_t>(std::atoi(set));
}

void join(World& world, ncclComm_t comm) {
  world.members.push_back(comm);
  if (++world.joined < world.size) return;
  for (ncclComm_t member : world.members) member->state = ncclSuccess;
}

// Called when all ranks have given their colours. As in NCCL, the caller's variable has no value
// before.
void split_up(World& world) {
  std::map<int, std::vector<std::pair<std::pair<int, int>, ncclComm_t>>> teams;  // key and rank
  for (const auto& [rank, split] : world.splits) {
    if (split.color == NCCL_SPLIT_NOCOLOR) continue;
    *split.result = new ncclComm;
    teams[split.color].push_back({{split.key, rank}, *split.result});
  }
  for (auto& [color, team] : teams) {
    std::sort(team.begin(), team.end());
    auto part = std::make_shared<World>();
    part->size = static_cast<int>(team.size());
    for (std::size_t i = 0; i < team.size(); ++i) {
      team[i].second->world = part;
      team[i].second->rank = static_cast<int>(i);
      join(*part, team[i].second);
    }
  }
  world.splits.clear();
  for (ncclComm_t member : world.members) member->state = ncclSuccess;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> next = 1;
  std::memset(id, 0, sizeof(*id));
  std::snprintf(id->internal, sizeof(id->internal), "double %d", next++);
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "an error of the test double";
}
const char* ncclGetLastError(ncclComm_t) { return "the test double's last words"; }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  const std::lock_guard lock(everything);
  auto& world = worlds[id.internal];
  if (!world) world = std::make_shared<World>();
  world->size = size;
  *comm = new ncclComm{world, rank};
  (*comm)->fails_at = failing_call();
  join(*world, *comm);
  return ncclInProgress;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t*) {
  *part = nullptr;
  if (!begin(comm, "ncclCommSplit")) return ncclInvalidArgument;
  const std::lock_guard lock(everything);
  comm->state = ncclInProgress;
  comm->world->splits[comm->rank] = {color, key, part};
  if (comm->world->splits.size() == static_cast<std::size_t>(comm->world->size))
    split_up(*comm->world);
  return ncclInProgress;
}
// As NCCL, waits until no graph has calls of the communicator.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  {
    const std::lock_guard lock(everything);
    expect_alive(comm, "ncclCommDestroy or ncclCommAbort");
    std::erase(comm->world->members, comm);
    comm->world->splits.erase(comm->rank);
    comm->freed = true;
    freed.emplace_back(comm);
  }
  while (comm->recorded > 0) std::this_thread::yield();
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  expect_alive(comm, "ncclCommGetAsyncError");
  *state = comm->state;
  if (*state == ncclSuccess && comm->unseen > 0 && --comm->unseen > 0) *state = ncclInProgress;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  expect_alive(comm, "ncclCommUserRank");
  *rank = comm->rank;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* size) {
  expect_alive(comm, "ncclCommCount");
  *size = comm->world->size;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++open_groups;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--open_groups > 0) return ncclSuccess;
  std::vector<std::function<void()>> calls;
  calls.swap(grouped);
  for (const auto& call : calls) call();
  return calls.empty() ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return post(comm, stream, {Kind::kAllReduce, send, receive, count, type, op, 0, nullptr});
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return post(comm, stream, {Kind::kReduceScatter, send, receive, count, type, op, 0, nullptr});
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return post(comm, stream, {Kind::kAllGather, send, receive, count, type, ncclSum, 0, nullptr});
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return post(comm, stream, {Kind::kBroadcast, send, receive, count, type, ncclSum, root, nullptr});
}
ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return post(comm, stream, {Kind::kReduce, send, receive, count, type, op, root, nullptr});
}
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return transfer(comm, peer, true, const_cast<void*>(send), count * bytes_of(type), stream);
}
ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return transfer(comm, peer, false, receive, count * bytes_of(type), stream);
}
