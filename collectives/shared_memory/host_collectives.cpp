// Writes this rank's vector into its slots, waits for those of the others, and combines them.
#include "collectives/shared_memory/host_collectives.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>

#include "rt/sdk/error.h"
#include "rt/sdk/operation.h"

namespace collectives::shared_memory {
namespace {

using Clock = std::chrono::steady_clock;

// Slots stay in the second-level cache of a rank: with twice as many the step of a small model took
// 1 % longer.
constexpr std::size_t kSlotBytes = 128 << 10;
constexpr uint64_t kSlots = 4;
// A rank reads at most this many bytes of others when it computes the whole result.
constexpr uint64_t kMostBytesRead = 1 << 20;
// Time for which wait() polls before it sleeps: as long as it takes to sleep and be woken, and the
// time by which ranks that compute the same differ.
constexpr std::chrono::microseconds kPolls{100};
constexpr std::size_t kLine = 128;  // bytes; processors fetch cache lines in pairs

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Between processes, so without FUTEX_PRIVATE_FLAG.
void futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  ::syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

std::vector<Range> equal_parts(std::size_t count, std::size_t parts) {
  std::vector<Range> result(parts);
  for (std::size_t i = 0; i < parts; ++i) {
    result[i].begin = count * i / parts;
    result[i].count = count * (i + 1) / parts - result[i].begin;
  }
  return result;
}

// The counters of one rank, which the others read. They lie in the segment.
struct alignas(kLine) HostCollectives::Rank {
  std::atomic<uint64_t> written;  // chunks that it has copied into its slots
  std::atomic<uint64_t> added;    // chunks of which it has added its part
  std::atomic<uint64_t> read;     // chunks of which it has the result
  // Others increase it when they have come further.
  alignas(kLine) std::atomic<uint32_t> bell;
  std::atomic<uint32_t> sleepers;  // threads that sleep until the bell changes
};

// A Slot describes the chunk in a slot. It lies in the segment.
struct HostCollectives::Slot {
  uint64_t count;  // elements of the whole vector
  rt_dtype dtype;
  int32_t reduction, collective;
  HostCall::Kind kind;
};

// A chunk has a piece of each rank's part, one behind the other; of the call kReduceWhole it is a
// piece of the vector, and of kShare a piece of the rank's own part.
struct HostCollectives::Operation {
  HostCall call;
  std::size_t element = 1;  // bytes of an element that is sent
  std::size_t piece = 0;    // elements, at most
  uint64_t first = 0, chunks = 0;
  uint64_t end() const { return first + chunks; }
  bool reduces_parts() const {
    return call.kind == HostCall::Kind::kReduce || call.kind == HostCall::Kind::kReduceAndShare;
  }
  // The piece of `rank` in a chunk: elements of the whole vector.
  Range piece_of(int rank, uint64_t chunk) const {
    const Range part = call.kind == HostCall::Kind::kReduceWhole
                           ? Range{0, call.count}
                           : call.parts[static_cast<std::size_t>(rank)];
    const std::size_t offset = std::min<std::size_t>((chunk - first) * piece, part.count);
    return {part.begin + offset, std::min(piece, part.count - offset)};
  }
};

static_assert(std::atomic<uint32_t>::is_always_lock_free &&
              std::atomic<uint64_t>::is_always_lock_free);

std::size_t HostCollectives::segment_bytes(int ranks) {
  const std::size_t slots = kSlots * (sizeof(Slot) + kSlotBytes);
  return static_cast<std::size_t>(ranks) * (sizeof(Rank) + slots);
}

HostCollectives::HostCollectives(Segment segment, int rank, int ranks)
    : segment_(std::move(segment)),
      rank_(rank),
      ranks_(ranks),
      left_(static_cast<std::size_t>(ranks)),
      sources_(static_cast<std::size_t>(ranks)) {}

HostCollectives::Rank& HostCollectives::at(int rank) const {
  return reinterpret_cast<Rank*>(segment_.data())[rank];
}

// The segment holds all Ranks, then the memory of all slots, then all Slots.
std::byte* HostCollectives::memory(int rank, uint64_t chunk) const {
  const uint64_t place = static_cast<uint64_t>(rank) * kSlots + chunk % kSlots;
  return segment_.data() + static_cast<std::size_t>(ranks_) * sizeof(Rank) + place * kSlotBytes;
}

HostCollectives::Slot& HostCollectives::slot(int rank, uint64_t chunk) const {
  auto* const slots = reinterpret_cast<Slot*>(memory(ranks_, 0));
  return slots[static_cast<uint64_t>(rank) * kSlots + chunk % kSlots];
}

bool HostCollectives::knows(int32_t collective) {
  return collective == RT_ALL_REDUCE || collective == RT_REDUCE_SCATTER ||
         collective == RT_ALL_GATHER;
}

bool HostCollectives::takes(const rt_collective& call) const {
  return ranks_ > 1 && knows(call.kind);
}

std::shared_ptr<HostCollectives::Operation> HostCollectives::start(const rt_collective& call) {
  const std::size_t bytes = bytes_of(call.dtype), ranks = static_cast<std::size_t>(ranks_);
  HostCall host{.collective = call.kind,
                .dtype = call.dtype,
                .count = call.count,
                .send = call.send,
                .result = call.receive,
                .result_bytes = bytes};
  if (call.kind != RT_ALL_GATHER) {
    host.reduction = call.reduction;
    host.combine = combine_of(call.dtype, call.reduction);
  }
  if (call.kind == RT_ALL_REDUCE) {
    const std::size_t most = std::min(kSlots * kSlotBytes, kMostBytesRead / (ranks - 1));
    if (call.count * bytes <= most) return start(std::move(host));
    host.kind = HostCall::Kind::kReduceAndShare;
    host.parts = equal_parts(call.count, ranks);
  } else {
    host.kind = call.kind == RT_REDUCE_SCATTER ? HostCall::Kind::kReduce : HostCall::Kind::kShare;
    host.count *= ranks;
    host.parts = equal_parts(host.count, ranks);
  }
  return start(std::move(host));
}

std::shared_ptr<HostCollectives::Operation> HostCollectives::start(HostCall call) {
  auto operation = std::make_shared<Operation>();
  operation->call = std::move(call);
  operation->element = rt::sdk::dtype_bytes(operation->call.dtype);
  const std::size_t pieces = operation->reduces_parts() ? static_cast<std::size_t>(ranks_) : 1;
  operation->piece = std::max<std::size_t>(kSlotBytes / operation->element / pieces, 1);
  std::size_t largest = operation->call.count;
  if (!operation->call.parts.empty()) {
    largest = 0;
    for (const Range& part : operation->call.parts) largest = std::max(largest, part.count);
  }
  // An empty vector has a chunk, too, so that ranks that disagree are found.
  operation->chunks = std::max<uint64_t>((largest + operation->piece - 1) / operation->piece, 1);
  const std::lock_guard lock(mutex_);
  check();
  operation->first = begun_;
  begun_ += operation->chunks;
  open_.push_back(operation);
  while (copy_next()) {
  }
  return operation;
}

bool HostCollectives::is_sent(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  const bool shares_sums = operation.call.kind == HostCall::Kind::kReduceAndShare;
  return (shares_sums ? added_ : written_) >= operation.end();
}

void HostCollectives::check() const {
  if (interrupted_) throw Interrupted();
}

// Whether all ranks have come so far with this chunk. A rank does not write into a slot before it
// has read what the others wrote for that chunk: it would seem to be through with it, and nobody
// would be left who reads for it.
bool HostCollectives::all_have(std::atomic<uint64_t> Rank::*counter, uint64_t chunk) const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if ((at(rank).*counter).load() > chunk) continue;
    if (left_[static_cast<std::size_t>(rank)]) throw Missing();
    return false;
  }
  return true;
}

// Rings for all others if this rank was the last to come so far, because nobody can go on before.
void HostCollectives::tell(std::atomic<uint64_t> Rank::*counter, uint64_t chunk) const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if ((at(rank).*counter).load() <= chunk) return;
  }
  for (int other = 0; other < ranks_; ++other) {
    if (other != rank_) ring(at(other));
  }
}

// The operation that a chunk belongs to; nullptr: it has not begun, or is over.
const HostCollectives::Operation* HostCollectives::operation_of(uint64_t chunk) const {
  const auto place =
      std::find_if(open_.begin(), open_.end(), [&](const auto& o) { return o->end() > chunk; });
  return place == open_.end() ? nullptr : place->get();
}

void HostCollectives::copy(const Operation& operation, uint64_t chunk) const {
  const HostCall& call = operation.call;
  const auto* const send = static_cast<const std::byte*>(call.send);
  std::byte* to = memory(rank_, chunk);
  const bool shares = call.kind == HostCall::Kind::kShare;
  for (int rank = 0; rank < ranks_; ++rank) {
    Range piece = operation.piece_of(operation.reduces_parts() ? rank : rank_, chunk);
    if (shares) piece.begin -= call.parts[static_cast<std::size_t>(rank_)].begin;
    if (piece.count > 0)
      std::memcpy(to, send + piece.begin * operation.element, piece.count * operation.element);
    if (!operation.reduces_parts()) return;
    to += operation.piece * operation.element;
  }
}

// Copies the next chunk of this rank into its slot. Returns false if there is none, or if another
// rank has not read what is in the slot.
bool HostCollectives::copy_next() {
  const Operation* const operation = operation_of(written_);
  if (operation == nullptr || (written_ >= kSlots && !all_have(&Rank::read, written_ - kSlots)))
    return false;
  copy(*operation, written_);
  slot(rank_, written_) = {operation->call.count, operation->call.dtype, operation->call.reduction,
                           operation->call.collective, operation->call.kind};
  at(rank_).written.store(++written_);
  tell(&Rank::written, written_ - 1);
  return true;
}

void HostCollectives::compare(const Operation& operation, uint64_t chunk) const {
  const HostCall& call = operation.call;
  for (int other = 0; other < ranks_; ++other) {
    const Slot& theirs = slot(other, chunk);
    if (other == rank_ || (theirs.count == call.count && theirs.dtype == call.dtype &&
                           theirs.reduction == call.reduction &&
                           theirs.collective == call.collective && theirs.kind == call.kind))
      continue;
    const auto describe = [](int32_t collective, uint64_t count, rt_dtype dtype,
                             int32_t reduction) {
      std::string text = collective == RT_ALL_GATHER       ? "an all-gather"
                         : collective == RT_REDUCE_SCATTER ? "a reduce-scatter"
                                                           : "an all-reduce";
      text += " of " + std::to_string(count) + " elements of type " + rt::sdk::to_string(dtype);
      if (reduction != 0) text += " with reduction " + std::to_string(reduction);
      return text;
    };
    throw Disagreement(
        other, "calls " +
                   describe(theirs.collective, theirs.count, theirs.dtype, theirs.reduction) +
                   " where this rank calls " +
                   describe(call.collective, call.count, call.dtype, call.reduction) +
                   "; the ranks disagree on the order, the type or the count of their calls");
  }
}

// Combines a piece of all ranks: that of this rank's part, or of the whole vector.
void HostCollectives::add(const Operation& operation, uint64_t chunk) {
  const HostCall& call = operation.call;
  const Range piece = operation.piece_of(rank_, chunk);
  if (piece.count == 0) return;
  const std::size_t place =
      operation.reduces_parts() ? static_cast<std::size_t>(rank_) * operation.piece : 0;
  for (int rank = 0; rank < ranks_; ++rank)
    sources_[static_cast<std::size_t>(rank)] = memory(rank, chunk) + place * operation.element;
  // From the caller's memory, which is in a nearer cache than the slot.
  sources_[static_cast<std::size_t>(rank_)] =
      static_cast<const std::byte*>(call.send) + piece.begin * operation.element;
  auto* const result = static_cast<std::byte*>(call.result);
  void* out = result + piece.begin * operation.element;
  if (call.kind == HostCall::Kind::kReduceAndShare)
    out = memory(rank_, chunk) + place * operation.element;
  if (call.kind == HostCall::Kind::kReduce)
    out = result + (chunk - operation.first) * operation.piece * call.result_bytes;
  call.combine(out, sources_.data(), sources_.size(), piece.count, sources_.size());
}

// Adds this rank's part of the next chunk. Returns false if there is none, or if its data are not
// there.
bool HostCollectives::add_next() {
  const Operation* const operation = added_ < written_ ? operation_of(added_) : nullptr;
  if (operation == nullptr) return false;
  if (operation->reduces_parts()) {
    if (!all_have(&Rank::written, added_)) return false;
    compare(*operation, added_);
    add(*operation, added_);
  }
  at(rank_).added.store(++added_);
  if (operation->call.kind == HostCall::Kind::kReduceAndShare) tell(&Rank::added, added_ - 1);
  return true;
}

void HostCollectives::read(const Operation& operation, uint64_t chunk) {
  const HostCall& call = operation.call;
  if (call.kind == HostCall::Kind::kReduceWhole) return add(operation, chunk);
  if (call.kind == HostCall::Kind::kReduce) return;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Range piece = operation.piece_of(rank, chunk);
    const std::size_t place =
        operation.reduces_parts() ? static_cast<std::size_t>(rank) * operation.piece : 0;
    std::byte* const to = static_cast<std::byte*>(call.result) + piece.begin * operation.element;
    // A rank that shares its part may have sent it from the place where it belongs.
    const std::size_t sent = (chunk - operation.first) * operation.piece * operation.element;
    const bool in_place = call.kind == HostCall::Kind::kShare && rank == rank_ &&
                          static_cast<const std::byte*>(call.send) + sent == to;
    if (piece.count > 0 && !in_place)
      std::memcpy(to, memory(rank, chunk) + place * operation.element,
                  piece.count * operation.element);
  }
}

// Reads the result of the next chunk. Returns false if there is none, or if it is not there.
bool HostCollectives::read_next() {
  if (read_ >= added_) return false;
  const Operation& operation = *open_.front();
  const bool shares_sums = operation.call.kind == HostCall::Kind::kReduceAndShare;
  if (!all_have(shares_sums ? &Rank::added : &Rank::written, read_)) return false;
  if (!operation.reduces_parts()) compare(operation, read_);
  read(operation, read_);
  at(rank_).read.store(++read_);
  for (int other = 0; other < ranks_; ++other) {  // those that may wait for their slot
    if (other != rank_ && at(other).written.load() + 1 >= read_ + kSlots) ring(at(other));
  }
  if (read_ == operation.end()) open_.pop_front();
  return true;
}

// Does first what the others wait for.
void HostCollectives::advance() {
  do {
    while (copy_next() || add_next()) {
    }
  } while (read_next());
}

void HostCollectives::ring(Rank& rank) const {
  rank.bell.fetch_add(1);
  if (rank.sleepers.load() > 0) futex(rank.bell, FUTEX_WAKE, INT32_MAX, nullptr);
}

// Sleeps until the bell of this rank has changed from `seen`; may also return for no reason.
void HostCollectives::sleep(uint32_t seen, Deadline deadline) {
  timespec left{};
  const bool limited = deadline != Deadline::max();
  if (limited) {
    const auto rest = std::chrono::nanoseconds(deadline - Clock::now()).count();
    if (rest <= 0) return;
    left = {static_cast<time_t>(rest / 1'000'000'000), static_cast<long>(rest % 1'000'000'000)};
  }
  Rank& own = at(rank_);
  own.sleepers.fetch_add(1);
  futex(own.bell, FUTEX_WAIT, seen, limited ? &left : nullptr);
  own.sleepers.fetch_sub(1);
}

bool HostCollectives::carry_out(const Operation& operation, Deadline deadline,
                                Deadline polls_until) {
  std::atomic<uint32_t>& bell = at(rank_).bell;
  std::unique_lock lock(mutex_);
  for (;;) {
    check();
    const uint32_t seen = bell.load();
    if (read_ < operation.end()) advance();
    if (read_ >= operation.end()) return true;
    const auto now = Clock::now();
    if (now >= deadline) return false;
    lock.unlock();
    if (now >= polls_until) {
      sleep(seen, deadline);
    } else {
      for (int i = 0; i < 64 && bell.load(std::memory_order_relaxed) == seen; ++i) pause();
    }
    lock.lock();
  }
}

// Where there are more ranks than processors, polling would keep those from running that are waited
// for.
bool HostCollectives::wait(const Operation& operation, Deadline deadline) {
  static const int processors = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return carry_out(operation, deadline,
                   ranks_ <= processors ? Clock::now() + kPolls : Deadline::min());
}

void HostCollectives::drive(const Operation& operation) {
  carry_out(operation, Deadline::max(), Deadline::min());
}

void HostCollectives::leave(int rank) {
  {
    const std::lock_guard lock(mutex_);
    left_[static_cast<std::size_t>(rank)] = true;
  }
  ring(at(rank_));
}

void HostCollectives::interrupt() {
  {
    const std::lock_guard lock(mutex_);
    interrupted_ = true;
  }
  ring(at(rank_));
}

}  // namespace collectives::shared_memory
