// Joins, splits, enqueues and aborts through NCCL's non-blocking calls, each of which has a
// deadline.
#include "communicator.h"

#include <algorithm>
#include <set>
#include <thread>

#include "rt/sdk/tensor.h"

namespace collectives::nccl {
namespace {

using rt::sdk::deadline_in;
using rt::sdk::format;
using rt::sdk::has_peer;
using rt::sdk::is_transfer;
using rt::sdk::reduces;

using Clock = std::chrono::steady_clock;

// A wait for another rank looks again at once for kSpin, then after pauses of kPause. The library
// queues a call in a thread of its own, which takes microseconds but on a busy machine up to
// kStartSpin, except for the first call, which makes connections.
constexpr std::chrono::microseconds kSpin{200}, kStartSpin{2000}, kPause{20};
constexpr int64_t kStartNs = 60'000'000'000;  // time limit for the library to start a call

ncclDataType_t type_of(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT32:
      return ncclFloat32;
    case RT_FLOAT64:
      return ncclFloat64;
    case RT_FLOAT16:
      return ncclFloat16;
    case RT_BFLOAT16:
      return ncclBfloat16;
    case RT_INT32:
      return ncclInt32;
    case RT_INT64:
      return ncclInt64;
    case RT_UINT8:
      return ncclUint8;
    case RT_INT8:
      return ncclInt8;
    default:
      throw Error(RT_ERROR_UNSUPPORTED, format("type %d is not one of the contract's", dtype));
  }
}

ncclRedOp_t reduction_of(int32_t reduction) {
  switch (reduction) {
    case RT_SUM:
      return ncclSum;
    case RT_AVERAGE:
      return ncclAvg;
    case RT_MIN:
      return ncclMin;
    case RT_MAX:
      return ncclMax;
    default:
      throw Error(RT_ERROR_UNSUPPORTED, format("reduction %d; expected 1 to 4", reduction));
  }
}

std::string key_of(const std::string& prefix, const std::string& what) {
  return prefix + "/nccl/" + what;
}

// Between two looks of a wait that began at `begin`.
void pause(Clock::time_point begin, std::chrono::microseconds spin) {
  if (Clock::now() - begin < spin)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(kPause);
}

int64_t left_until(Deadline deadline) {
  const auto left = deadline - Clock::now();
  return std::max<int64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(left).count(), 0);
}

void set(const rt_host& host, const std::string& key, const void* value, uint64_t bytes) {
  rt_error error{};
  error.size = sizeof(error);
  if (host.kv_set(host.context, key.c_str(), value, bytes, &error) != RT_OK)
    throw Error(error.code, error.message, error.scope);
}

// Returns false if the key does not exist in time.
bool get(const rt_host& host, const std::string& key, void* value, uint64_t bytes,
         int64_t timeout_ns) {
  rt_error error{};
  error.size = sizeof(error);
  uint64_t room = bytes;
  const rt_status status = host.kv_get(host.context, key.c_str(), value, &room, timeout_ns, &error);
  if (status == RT_ERROR_TIMEOUT) return false;
  if (status != RT_OK) throw Error(error.code, error.message, error.scope);
  return true;
}

// Every rank announces itself in the store, so that the error can name the ranks that do not. NCCL
// itself would only wait.
void call_the_roll(const rt_host& host, const rt_comm_options& o, Deadline deadline) {
  const char here = 1;
  set(host, key_of(o.prefix, "rank/" + std::to_string(o.rank)), &here, 1);
  std::string missing;
  for (int32_t rank = 0; rank < o.world_size; ++rank) {
    char there = 0;
    const int64_t left = missing.empty() ? left_until(deadline) : 0;
    if (get(host, key_of(o.prefix, "rank/" + std::to_string(rank)), &there, 1, left)) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (missing.empty()) return;
  throw Error(
      RT_ERROR_TIMEOUT,
      format("%s: rank %d of %d: these ranks did not come in time: %s; see whether they run", kName,
             o.rank, o.world_size, missing.c_str()),
      RT_SCOPE_COMMUNICATOR);
}

ncclUniqueId meet(const rt_host& host, const std::string& key, int rank, Deadline deadline) {
  ncclUniqueId id{};
  if (rank == 0) {
    check_nccl(ncclGetUniqueId(&id), "make an identifier");
    set(host, key, &id, sizeof(id));
  } else if (!get(host, key, &id, sizeof(id), left_until(deadline))) {
    throw Error(
        RT_ERROR_TIMEOUT,
        format("%s: nobody gave the identifier %s in time; see the output of the other ranks",
               kName, key.c_str()),
        RT_SCOPE_COMMUNICATOR);
  }
  return id;
}

// Groups calls of the library so that they start together. The destructor ends a group that an
// exception left open, because such a group would swallow later calls of the thread.
class LibraryGroup {
 public:
  LibraryGroup() { check_nccl(ncclGroupStart(), "begin a group"); }
  ~LibraryGroup() {
    if (open_) static_cast<void>(ncclGroupEnd());
  }
  LibraryGroup(const LibraryGroup&) = delete;
  LibraryGroup& operator=(const LibraryGroup&) = delete;
  void end(ncclComm_t comm) {
    open_ = false;
    check_nccl(ncclGroupEnd(), "end a group", comm);
  }

 private:
  bool open_ = true;
};

bool is_capturing(GPU(Stream_t) stream) {
  auto status = GPU(StreamCaptureStatusNone);
  check_gpu(GPU(StreamIsCapturing)(stream, &status), "see whether a stream is captured");
  return status != GPU(StreamCaptureStatusNone);
}

}  // namespace

Completion::Completion(bool captured) : captured_(captured) {
  if (captured) return;
  check_gpu(GPU(EventCreateWithFlags)(&event_, GPU(EventDisableTiming)), "create an event");
}
Completion::~Completion() {
  if (!captured_) static_cast<void>(GPU(EventDestroy)(event_));
}

void Completion::record(GPU(Stream_t) stream) {
  if (captured_) return;
  check_gpu(GPU(EventRecord)(event_, stream), "record an event");
  recorded_ = true;
}

bool Completion::done() const {
  if (captured_) return true;
  if (!recorded_) return false;
  const GPU(Error_t) status = GPU(EventQuery)(event_);
  if (status == GPU(ErrorNotReady)) return false;
  check_gpu(status, "a collective on the device");
  return true;
}

Communicator::Communicator(const rt_host& host, const Native& native, std::string prefix,
                           std::chrono::nanoseconds timeout)
    : host_(host), native_(native), prefix_(std::move(prefix)), timeout_(timeout) {}

Communicator::Communicator(const rt_host& host, const rt_comm_options& o)
    : Communicator(host, Native(o), o.prefix, std::chrono::nanoseconds(o.timeout_ns)) {
  rt::sdk::expect_meeting_place(host, o);
  const Deadline deadline = deadline_in(o.timeout_ns);
  use_device();
  call_the_roll(host, o, deadline);
  comm_ = join("id", o.rank, o.world_size, deadline);
  prepare();
}

Communicator::Communicator(const Communicator& parent, ncclComm_t comm, std::string prefix,
                           Deadline deadline)
    : Communicator(parent.host_, parent.native_, std::move(prefix), parent.timeout_) {
  comm_ = comm;
  settle(comm_, "split", deadline);
  prepare();
}

ncclComm_t Communicator::join(const std::string& key, int rank, int size, Deadline deadline) {
  const ncclUniqueId id = meet(host_, key_of(prefix_, key), rank, deadline);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  try {
    check_nccl(ncclCommInitRankConfig(&comm, size, id, rank, &config), "join", comm);
    settle(comm, "join", deadline);
  } catch (const Error&) {
    if (comm != nullptr) static_cast<void>(ncclCommAbort(comm));
    throw;
  }
  return comm;
}

void Communicator::prepare() {
  check_nccl(ncclCommUserRank(comm_, &rank_), "read the rank", comm_);
  check_nccl(ncclCommCount(comm_, &size_), "read the number of ranks", comm_);
  check_gpu(GPU(StreamCreateWithFlags)(&own_stream_, GPU(StreamNonBlocking)), "create a stream");
  check_gpu(GPU(Malloc)(&barrier_, sizeof(int32_t)), "allocate memory");
  check_gpu(GPU(MemsetAsync)(barrier_, 0, sizeof(int32_t), own_stream_), "clear memory");
  prepared_ = true;
}

Communicator::~Communicator() {
  static_cast<void>(GPU(SetDevice)(native_.device()));
  bool idle = prepared_;
  try {
    for (const auto& [comm, completion] : last_) idle = idle && completion->done();
  } catch (const Error&) {  // the device failed: its work will never complete
    idle = false;
  }
  if (idle && !failure()) {
    for (ncclComm_t comm : comms()) static_cast<void>(ncclCommDestroy(comm));
  } else {
    abort();
  }
  for (std::thread& thread : aborting_) thread.join();
  if (barrier_ != nullptr) static_cast<void>(GPU(Free)(barrier_));
  if (own_stream_ != nullptr) static_cast<void>(GPU(StreamDestroy)(own_stream_));
}

void Communicator::use_device() const {
  check_gpu(GPU(SetDevice)(native_.device()), "choose the device");
}

std::vector<ncclComm_t> Communicator::comms() const {
  std::vector<ncclComm_t> all;
  if (comm_ != nullptr) all.push_back(comm_);
  for (const auto& [pair, comm] : pairs_) all.push_back(comm);
  return all;
}

void Communicator::settle(ncclComm_t comm, const char* what, Deadline deadline) {
  const auto begin = Clock::now();
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      expect_alive();
      ncclResult_t state = ncclSuccess;
      check_nccl(ncclCommGetAsyncError(comm, &state), what, comm);
      check_nccl(state, what, comm);
      if (state != ncclInProgress) return;
    }
    if (Clock::now() > deadline) {
      abort();
      throw Error(
          RT_ERROR_TIMEOUT,
          format("%s: communicator '%s': %s did not end in time; see the output of the other ranks",
                 kName, prefix_.c_str(), what),
          RT_SCOPE_COMMUNICATOR);
    }
    pause(begin, kStartSpin);
  }
}

void Communicator::expect_alive() const {
  if (aborted_)
    throw Error(RT_ERROR_ABORTED, "the communicator was aborted", RT_SCOPE_COMMUNICATOR);
}

std::unique_ptr<Communicator> Communicator::split(int32_t color, int32_t key, Deadline deadline) {
  use_device();
  ncclComm_t whole = nullptr;
  {
    const std::lock_guard lock(mutex_);
    expect_alive();
    whole = comm_;
    check_nccl(ncclCommSplit(whole, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &part_, nullptr),
               "split", whole);
  }
  settle(whole, "split", deadline);
  const std::string prefix = format("%s/%d.%d", prefix_.c_str(), splits_++, color);
  ncclComm_t part = nullptr;
  {
    const std::lock_guard lock(mutex_);
    expect_alive();  // abort() has freed the part
    part = std::exchange(part_, nullptr);
  }
  if (part == nullptr) return nullptr;
  return std::unique_ptr<Communicator>(new Communicator(*this, part, prefix, deadline));
}

void Communicator::check(const rt_collective& call) const {
  if (call.kind < RT_ALL_REDUCE || call.kind > RT_BARRIER) {
    throw Error(RT_ERROR_UNSUPPORTED, format("collective %d; expected 1 to 9", call.kind));
  }
  if (call.kind == RT_BARRIER) return;
  type_of(call.dtype);
  if (reduces(call.kind)) reduction_of(call.reduction);
  if (has_peer(call.kind) &&
      (call.peer < 0 || call.peer >= size_ || (is_transfer(call.kind) && call.peer == rank_))) {
    throw Error(RT_ERROR_INVALID_ARGUMENT, format("collective %d with peer %d on rank %d of %d",
                                                  call.kind, call.peer, rank_, size_));
  }
  if (call.memory_kind != RT_MEMORY_DEVICE) {
    throw Error(RT_ERROR_UNSUPPORTED,
                format("memory of kind %d; %s reads device memory only (kind %d)", call.memory_kind,
                       kName, RT_MEMORY_DEVICE));
  }
}

void Communicator::all_to_all(const rt_collective& call, GPU(Stream_t) stream) {
  const uint64_t bytes = call.count * rt::sdk::dtype_bytes(call.dtype);
  LibraryGroup group;
  for (int peer = 0; peer < size_; ++peer) {
    const auto* from = static_cast<const char*>(call.send) + static_cast<uint64_t>(peer) * bytes;
    auto* to = static_cast<char*>(call.receive) + static_cast<uint64_t>(peer) * bytes;
    check_nccl(ncclSend(from, bytes, ncclUint8, peer, comm_, stream), "send", comm_);
    check_nccl(ncclRecv(to, bytes, ncclUint8, peer, comm_, stream), "receive", comm_);
  }
  group.end(comm_);
}

Communicator::Pair Communicator::pair_of(const rt_collective& call) const {
  return call.kind == RT_SEND ? Pair(rank_, call.peer) : Pair(call.peer, rank_);
}

ncclComm_t Communicator::comm_of(const rt_collective& call) const {
  return is_transfer(call.kind) ? pairs_.at(pair_of(call)) : comm_;
}

// Creates the NCCL communicators of pairs that do not exist yet: in the same order on all ranks,
// and outside groups of the library.
void Communicator::join_pairs(const std::vector<Pending>& calls) {
  std::set<Pair> missing;
  {
    const std::lock_guard lock(mutex_);
    for (const Pending& p : calls) {
      if (is_transfer(p.call.kind) && !pairs_.contains(pair_of(p.call)))
        missing.insert(pair_of(p.call));
    }
  }
  for (const Pair& pair : missing) {
    const ncclComm_t comm = join(format("pair/%d-%d", pair.first, pair.second),
                                 pair.first == rank_ ? 0 : 1, 2, Clock::now() + timeout_);
    const std::lock_guard lock(mutex_);
    if (aborted_) static_cast<void>(ncclCommAbort(comm));
    expect_alive();
    pairs_[pair] = comm;
  }
}

void Communicator::start(const rt_collective& c, GPU(Stream_t) stream) {
  const ncclDataType_t type = c.kind == RT_BARRIER ? ncclInt32 : type_of(c.dtype);
  const auto done = [&](ncclResult_t status, const char* what) { check_nccl(status, what, comm_); };
  switch (c.kind) {
    case RT_ALL_REDUCE:
      return done(
          ncclAllReduce(c.send, c.receive, c.count, type, reduction_of(c.reduction), comm_, stream),
          "all-reduce");
    case RT_REDUCE_SCATTER:
      return done(ncclReduceScatter(c.send, c.receive, c.count, type, reduction_of(c.reduction),
                                    comm_, stream),
                  "reduce-scatter");
    case RT_ALL_GATHER:
      return done(ncclAllGather(c.send, c.receive, c.count, type, comm_, stream), "all-gather");
    case RT_BROADCAST:
      return done(ncclBroadcast(c.send, c.receive, c.count, type, c.peer, comm_, stream),
                  "broadcast");
    case RT_REDUCE:
      return done(ncclReduce(c.send, c.receive, c.count, type, reduction_of(c.reduction), c.peer,
                             comm_, stream),
                  "reduce");
    case RT_ALL_TO_ALL:
      return all_to_all(c, stream);
    case RT_SEND:
      return done(ncclSend(c.send, c.count, type, 1, comm_of(c), stream), "send");
    case RT_RECEIVE:
      return done(ncclRecv(c.receive, c.count, type, 0, comm_of(c), stream), "receive");
    default:
      return done(ncclAllReduce(barrier_, barrier_, 1, type, ncclSum, comm_, stream), "barrier");
  }
}

Work* Communicator::enqueue(const rt_collective& call) { return new Work(*this, begin(call)); }

std::shared_ptr<Completion> Communicator::begin(const rt_collective& call) {
  check(call);
  if (const auto error = failure()) throw *error;
  use_device();
  const bool given = call.stream != nullptr;
  GPU(Stream_t) stream = given ? native_.stream(call.stream) : own_stream_;
  const bool captured = given && is_capturing(stream);
  if (captured && !is_capturable(call.kind)) {
    throw Error(RT_ERROR_UNSUPPORTED,
                format("%s: collective %d cannot be captured into a graph", kName, call.kind));
  }
  auto completion = std::make_shared<Completion>(captured);
  if (open_groups > 0) {
    grouped_.push_back({call, completion, stream});
  } else {
    issue({{call, completion, stream}});
  }
  return completion;
}

void Communicator::issue(const std::vector<Pending>& calls) {
  join_pairs(calls);
  for (ncclComm_t comm : start_all(calls))
    settle(comm, "start a collective", deadline_in(kStartNs));
  for (const Pending& p : calls) p.completion->record(p.stream);
}

// Starts the calls as one group of the library, and returns the NCCL communicators that they use.
std::vector<ncclComm_t> Communicator::start_all(const std::vector<Pending>& calls) {
  const std::lock_guard lock(mutex_);
  expect_alive();
  std::set<ncclComm_t> used;
  for (const Pending& p : calls) {
    captured_ = captured_ || p.completion->captured();
    if (!p.completion->captured()) last_[comm_of(p.call)] = p.completion;
    used.insert(comm_of(p.call));
  }
  LibraryGroup group;
  for (const Pending& p : calls) start(p.call, p.stream);
  group.end(comm_);
  return {used.begin(), used.end()};
}

void Communicator::begin_group() { expect_alive(); }

void Communicator::end_group() {
  expect_alive();
  use_device();
  issue(std::exchange(grouped_, {}));
}

bool Communicator::poll(const Completion& completion) {
  if (completion.done()) return true;  // a later failure does not undo completed work
  if (const auto error = failure()) throw *error;
  return false;
}

void Communicator::wait(const Completion& completion, Deadline deadline) {
  const auto begin = Clock::now();
  while (!poll(completion)) {
    if (Clock::now() > deadline) {
      throw Error(
          RT_ERROR_TIMEOUT,
          format("rank %d of communicator '%s': not complete after %.3g s: not all ranks "
                 "have come, or the "
                 "connection is slow",
                 rank_, prefix_.c_str(), std::chrono::duration<double>(deadline - begin).count()));
    }
    pause(begin, kSpin);
  }
}

// ncclCommAbort tells the kernels on the device to end, and then waits until no graph has calls of
// the communicator any more (src/init.cc of 2.18 to 2.30, commDestroySync). The host may need this
// thread to destroy these graphs, so abort() does not wait then; the destructor does. Each
// communicator has a thread of its own, because the end of one may wait for the device, and with
// it for kernels of the others.
void Communicator::abort() {
  const std::lock_guard lock(mutex_);
  if (aborted_.exchange(true)) return;
  for (ncclComm_t comm : comms()) {
    aborting_.emplace_back([this, comm, first = comm == comm_] {
      static_cast<void>(GPU(SetDevice)(native_.device()));
      static_cast<void>(ncclCommAbort(comm));  // abort frees it too
      // The abort of comm_ has ended the thread that writes part_.
      if (first && part_ != nullptr) static_cast<void>(ncclCommAbort(part_));
    });
  }
  comm_ = nullptr;
  pairs_.clear();
  if (captured_) return;
  for (std::thread& thread : aborting_) thread.join();
  aborting_.clear();
}

bool Communicator::is_capturable(int32_t kind) {
  return kCapturable && (kind == RT_ALL_REDUCE || kind == RT_REDUCE_SCATTER ||
                         kind == RT_ALL_GATHER || kind == RT_BROADCAST || kind == RT_REDUCE);
}

std::optional<Error> Communicator::failure() {
  if (aborted_)
    return Error(RT_ERROR_ABORTED, "the communicator was aborted", RT_SCOPE_COMMUNICATOR);
  const std::lock_guard lock(mutex_);
  try {
    for (ncclComm_t comm : comms()) {
      ncclResult_t state = ncclSuccess;
      check_nccl(ncclCommGetAsyncError(comm, &state), "look for errors", comm);
      check_nccl(state, "a collective", comm);
    }
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace collectives::nccl
