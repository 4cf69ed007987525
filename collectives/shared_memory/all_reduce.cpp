// Writes this rank's part into its slot, waits for the other slots by polling, and combines them.
#include "collectives/shared_memory/all_reduce.h"

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
using rt::sdk::format;

// An all-reduce fits into the slots of a rank, which stay in its second-level cache: with twice as
// many the step of a small model took 1 % longer.
constexpr std::size_t kSlotBytes = 128 << 10;
constexpr uint64_t kSlots = 4;
// A rank reads at most this many bytes of others in one all-reduce, because algorithms that share
// out the sums read less if there are several others.
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

// The counters of one rank, which the others read. They lie in the segment.
struct alignas(kLine) AllReduces::Rank {
  std::atomic<uint64_t> written;  // chunks that it has copied into its slots
  std::atomic<uint64_t> read;     // chunks of the others that it has added
  // Others increase it when they have written or read.
  alignas(kLine) std::atomic<uint32_t> bell;
  std::atomic<uint32_t> sleepers;  // threads that sleep until the bell changes
};

// A Slot describes the chunk in a slot. It lies in the segment.
struct AllReduces::Slot {
  uint64_t count;  // elements of the whole vector
  rt_dtype dtype;
  int32_t reduction;
};

struct AllReduces::Operation {
  rt_collective call{};
  Combine combine = nullptr;
  uint64_t first = 0, chunks = 0;
  uint64_t end() const { return first + chunks; }
};

static_assert(std::atomic<uint32_t>::is_always_lock_free &&
              std::atomic<uint64_t>::is_always_lock_free);

std::size_t AllReduces::segment_bytes(int ranks) {
  const std::size_t slots = kSlots * (sizeof(Slot) + kSlotBytes);
  return static_cast<std::size_t>(ranks) * (sizeof(Rank) + slots);
}

AllReduces::AllReduces(Segment segment, int rank, int ranks)
    : segment_(std::move(segment)),
      rank_(rank),
      ranks_(ranks),
      left_(static_cast<std::size_t>(ranks)),
      sources_(static_cast<std::size_t>(ranks)) {}

AllReduces::Rank& AllReduces::at(int rank) const {
  return reinterpret_cast<Rank*>(segment_.data())[rank];
}

// The segment holds all Ranks, then the memory of all slots, then all Slots.
std::byte* AllReduces::memory(int rank, uint64_t chunk) const {
  const uint64_t place = static_cast<uint64_t>(rank) * kSlots + chunk % kSlots;
  return segment_.data() + static_cast<std::size_t>(ranks_) * sizeof(Rank) + place * kSlotBytes;
}

AllReduces::Slot& AllReduces::slot(int rank, uint64_t chunk) const {
  auto* const slots = reinterpret_cast<Slot*>(memory(ranks_, 0));
  return slots[static_cast<uint64_t>(rank) * kSlots + chunk % kSlots];
}

bool AllReduces::takes(const rt_collective& call) const {
  const uint64_t others = static_cast<uint64_t>(ranks_) - 1,
                 bytes = rt::sdk::dtype_bytes(call.dtype);
  return call.kind == RT_ALL_REDUCE && others > 0 &&
         call.count <= std::min(kSlots * kSlotBytes, kMostBytesRead / others) / bytes;
}

uint64_t AllReduces::chunk_elements(const Operation& operation) const {
  return kSlotBytes / rt::sdk::dtype_bytes(operation.call.dtype);
}

std::shared_ptr<AllReduces::Operation> AllReduces::start(const rt_collective& call) {
  auto operation = std::make_shared<Operation>();
  operation->call = call;
  operation->combine = combine_of(call.dtype, call.reduction);
  const uint64_t elements = chunk_elements(*operation);
  // An empty vector has a chunk, too, so that ranks that disagree are found.
  operation->chunks = std::max<uint64_t>((call.count + elements - 1) / elements, 1);
  const std::lock_guard lock(mutex_);
  check();
  operation->first = begun_;
  begun_ += operation->chunks;
  open_.push_back(operation);
  while (copy_next()) {
  }
  return operation;
}

bool AllReduces::is_sent(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  return written_ >= operation.end();
}

void AllReduces::check() const {
  if (interrupted_) throw Interrupted();
}

// Whether all ranks have written or read this chunk. A rank does not write into a slot before it
// has read what the others wrote for that chunk: it would seem to be through with it, and nobody
// would be left who reads for it.
bool AllReduces::all_have(std::atomic<uint64_t> Rank::*counter, uint64_t chunk) const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if ((at(rank).*counter).load() > chunk) continue;
    if (left_[static_cast<std::size_t>(rank)]) throw Missing();
    return false;
  }
  return true;
}

// Copies the next chunk of this rank into its slot. Returns false if there is none, or if another
// rank has not read what is in the slot.
bool AllReduces::copy_next() {
  const auto place =
      std::find_if(open_.begin(), open_.end(), [&](const auto& o) { return o->end() > written_; });
  if (place == open_.end() || (written_ >= kSlots && !all_have(&Rank::read, written_ - kSlots)))
    return false;
  const Operation& operation = **place;
  const rt_collective& call = operation.call;
  const uint64_t bytes = rt::sdk::dtype_bytes(call.dtype), elements = chunk_elements(operation);
  const uint64_t begin = (written_ - operation.first) * elements;
  if (call.count > 0)
    std::memcpy(memory(rank_, written_), static_cast<const std::byte*>(call.send) + begin * bytes,
                std::min(elements, call.count - begin) * bytes);
  slot(rank_, written_) = {call.count, call.dtype, call.reduction};
  at(rank_).written.store(++written_);
  for (int other = 0; other < ranks_; ++other) {
    if (other != rank_) ring(at(other));
  }
  return true;
}

void AllReduces::compare(const Operation& operation, uint64_t chunk) const {
  const rt_collective& call = operation.call;
  for (int other = 0; other < ranks_; ++other) {
    const Slot& theirs = slot(other, chunk);
    if (other == rank_ || (theirs.count == call.count && theirs.dtype == call.dtype &&
                           theirs.reduction == call.reduction))
      continue;
    throw Disagreement(
        other,
        format("calls an all-reduce of %llu elements of type %s with reduction %d where this "
               "rank calls one of %llu elements of type %s with reduction %d; the ranks "
               "disagree on the order, the type or the count of their calls",
               static_cast<unsigned long long>(theirs.count),
               rt::sdk::to_string(theirs.dtype).c_str(), theirs.reduction,
               static_cast<unsigned long long>(call.count), rt::sdk::to_string(call.dtype).c_str(),
               call.reduction));
  }
}

// Computes the next chunk of the result. Returns false if there is none, or if its data are not
// there.
bool AllReduces::add_next() {
  if (open_.empty() || !all_have(&Rank::written, read_)) return false;
  const Operation& operation = *open_.front();
  compare(operation, read_);
  const rt_collective& call = operation.call;
  const uint64_t bytes = rt::sdk::dtype_bytes(call.dtype), elements = chunk_elements(operation);
  const uint64_t begin = (read_ - operation.first) * elements;
  for (int rank = 0; rank < ranks_; ++rank) {
    sources_[static_cast<std::size_t>(rank)] =
        rank == rank_ ? static_cast<const std::byte*>(call.send) + begin * bytes
                      : memory(rank, read_);
  }
  operation.combine(static_cast<std::byte*>(call.receive) + begin * bytes, sources_.data(),
                    sources_.size(), std::min(elements, call.count - begin));
  at(rank_).read.store(++read_);
  if (read_ == operation.end()) open_.pop_front();
  for (int other = 0; other < ranks_; ++other) {  // those that may wait for their slot
    if (other != rank_ && at(other).written.load() + 1 >= read_ + kSlots) ring(at(other));
  }
  return true;
}

// Copies what can be copied first, because the others wait for it.
void AllReduces::advance() {
  do {
    while (copy_next()) {
    }
  } while (add_next());
}

void AllReduces::ring(Rank& rank) const {
  rank.bell.fetch_add(1);
  if (rank.sleepers.load() > 0) futex(rank.bell, FUTEX_WAKE, INT32_MAX, nullptr);
}

// Sleeps until the bell of this rank has changed from `seen`; may also return for no reason.
void AllReduces::sleep(uint32_t seen, Deadline deadline) {
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

bool AllReduces::carry_out(const Operation& operation, Deadline deadline, Deadline polls_until) {
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

bool AllReduces::wait(const Operation& operation, Deadline deadline) {
  return carry_out(operation, deadline, Clock::now() + kPolls);
}

void AllReduces::drive(const Operation& operation) {
  carry_out(operation, Deadline::max(), Deadline::min());
}

void AllReduces::leave(int rank) {
  {
    const std::lock_guard lock(mutex_);
    left_[static_cast<std::size_t>(rank)] = true;
  }
  ring(at(rank_));
}

void AllReduces::interrupt() {
  {
    const std::lock_guard lock(mutex_);
    interrupted_ = true;
  }
  ring(at(rank_));
}

}  // namespace collectives::shared_memory
