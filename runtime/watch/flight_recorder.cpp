// Keeps records in a mapped file without locks, and reads those of other ranks.
#include "runtime/watch/flight_recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>

#include "plugins/host/text.h"
#include "runtime/error.h"

namespace runtime::watch {
namespace {

using plugins::host::collective_name;
using plugins::host::dtype_name;

// A slot holds a record as 64-bit words, each an atomic of its own. Word 0 is the sequence number
// and is 0 while the other words are written, so a reader that sees the same number before and
// after its reads has a consistent record.
constexpr size_t kSequence = 0, kWait = 6, kEnd = 7;
using Words = std::array<uint64_t, sizeof(CollectiveRecord) / sizeof(uint64_t)>;
static_assert(offsetof(CollectiveRecord, wait_ns) == kWait * sizeof(uint64_t));
static_assert(offsetof(CollectiveRecord, end_ns) == kEnd * sizeof(uint64_t));
static_assert(std::atomic<uint64_t>::is_always_lock_free);

constexpr uint64_t kMagic = 0x3463657274722121;  // version 4 of the file
constexpr size_t kDumped = 64;

// "12.345 s": the time from `from_ns` to `to_ns`, which may be any numbers if a file is damaged.
std::string span(int64_t from_ns, int64_t to_ns, double unit, int digits, const char* name) {
  char text[64];
  const double ns = static_cast<double>(to_ns) - static_cast<double>(from_ns);
  std::snprintf(text, sizeof(text), "%.*f %s", digits, ns * unit, name);
  return text;
}

std::string name_of(uint64_t communicator, const Groups& groups) {
  return communicator < groups.names.size() ? groups.names[communicator] : "";
}

// The rank of the job that is rank `peer` of a communicator of `rank`.
int rank_in_job(int peer, uint64_t communicator, const Groups& groups, int rank) {
  if (!groups.members) return peer;
  const std::vector<int> members = groups.members(communicator, rank);
  const auto index = static_cast<size_t>(peer);
  return index < members.size() ? members[index] : peer;
}

// "bucket 0, micro-batch 2, step 812"; "" if nothing is known.
std::string contents(const CollectiveRecord& r) {
  std::string text(r.label_text());
  const auto add = [&](const char* name, int64_t number) {
    if (number > 0) text += (text.empty() ? "" : ", ") + (name + std::to_string(number));
  };
  add("micro-batch ", r.micro_batch);
  add("step ", r.step);
  return text;
}

std::string dump_line(const CollectiveRecord& r, int64_t origin_ns, int64_t now_ns,
                      const Groups& groups) {
  std::string line = "  #" + std::to_string(r.number) + " " + collective_name(r.kind);
  if (r.kind != RT_BARRIER) line += " " + dtype_name(r.dtype) + " x " + std::to_string(r.count);
  if (r.reduction != 0) line += " " + plugins::host::reduction_name(r.reduction);
  if (r.peer >= 0) line += ", peer " + std::to_string(r.peer);
  if (const std::string name = name_of(r.communicator, groups); !name.empty())
    line += ", " + name;
  else if (r.communicator != 0)
    line += ", communicator " + std::to_string(r.communicator);
  if (const std::string what = contents(r); !what.empty()) line += ", " + what;
  line += ", started " + span(origin_ns, r.start_ns, 1e-9, 3, "s");
  if (r.end_ns == 0)
    return line + ", STILL RUNNING for " + span(r.start_ns, now_ns, 1e-9, 1, "s") + "\n";
  return line + ", took " + span(r.start_ns, r.end_ns, 1e-6, 1, "ms") + "\n";
}

std::filesystem::path file_of(const std::filesystem::path& folder, int rank) {
  return folder / ("rank-" + std::to_string(rank) + ".recorder");
}

// Returns -1 if no file is wanted. Reserves the space, because on a full disk the first write to
// the mapping would raise SIGBUS.
int open_file(const std::filesystem::path& file, size_t bytes) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  const int error = fd < 0 ? errno : ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (error == 0) return fd;
  if (fd >= 0) ::close(fd);
  throw CommunicationError("record of collectives " + file.string() + ": cannot make it with " +
                           std::to_string(bytes) + " bytes: " + std::strerror(error) +
                           "; free space there, or set TMPDIR to another folder");
}

void* map(int fd, size_t bytes) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (memory == MAP_FAILED)
    throw CommunicationError("record of collectives: cannot map " + std::to_string(bytes) +
                             " bytes: " + std::strerror(error));
  return memory;
}

// Whether record i of a file is possible; a damaged file may hold any bytes.
bool makes_sense(const CollectiveRecord& r, size_t i) {
  return r.sequence != 0 && r.sequence % FlightRecorder::kSlots == i && r.start_ns > 0 &&
         (r.end_ns == 0 || r.end_ns >= r.start_ns);
}

ChannelState& state_of(const Channel& channel, std::vector<ChannelState>& states) {
  const auto at = std::find_if(states.begin(), states.end(),
                               [&](const ChannelState& s) { return s.channel == channel; });
  return at == states.end() ? states.emplace_back(ChannelState{channel}) : *at;
}

// Sorts the records, and drops those that are more than kSlots behind the newest: the slots of one
// run cannot hold them together.
void finish(RankRecords& result) {
  auto& records = result.records;
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  std::erase_if(records, [last = records.empty() ? 0 : records.back().sequence](const auto& r) {
    return last - r.sequence >= FlightRecorder::kSlots;
  });
}

}  // namespace

int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Channel CollectiveRecord::channel() const {
  if (kind != RT_SEND && kind != RT_RECEIVE) return {communicator};
  return {communicator, kind, peer};
}

std::string_view CollectiveRecord::label_text() const {
  return {label.data(), strnlen(label.data(), label.size())};
}

void CollectiveRecord::set_label(std::string_view text) {
  label = {};
  std::copy_n(text.begin(), std::min(text.size(), label.size()), label.begin());
}

std::vector<ChannelState> RankRecords::channels() const {
  std::vector<ChannelState> states;
  for (const CollectiveRecord& r : records) {
    ChannelState& state = state_of(r.channel(), states);
    state.started = std::max(state.started, r.number);
    if (r.end_ns != 0) continue;
    if (state.pending.sequence == 0 || (state.pending.wait_ns == 0 && r.wait_ns != 0))
      state.pending = r;
  }
  return states;
}

std::string describe(const CollectiveRecord& r, const Groups& groups, int rank) {
  std::string text = collective_name(r.kind);
  if (r.number > 0) text += " #" + std::to_string(r.number);
  const std::string name = name_of(r.communicator, groups);
  const bool transfer = r.channel().direction != 0;
  if (transfer)
    text += (r.kind == RT_SEND ? " to rank " : " from rank ") +
            std::to_string(rank_in_job(r.peer, r.communicator, groups, rank));
  if (!name.empty()) text += (transfer ? " along " : " of ") + name;
  if (r.kind == RT_BARRIER) return text;
  const std::string what = contents(r);
  return text + " (" + std::to_string(r.count) + " " + dtype_name(r.dtype) +
         (what.empty() ? "" : ", " + what) + ")";
}

std::string dump(const RankRecords& records, int64_t now_ns, const Groups& groups) {
  const size_t size = records.records.size();
  std::string text = "rank " + std::to_string(records.rank) + ": " + std::to_string(size) +
                     " collectives are known, the last " + std::to_string(kDumped) +
                     " and those that still run (times from the start of the rank):\n";
  for (size_t i = 0; i < size; ++i) {
    const CollectiveRecord& r = records.records[i];
    if (i + kDumped >= size || r.end_ns == 0)
      text += dump_line(r, records.origin_ns, now_ns, groups);
  }
  return text;
}

void FlightRecorder::Unmap::operator()(Memory* memory) const { ::munmap(memory, sizeof(Memory)); }

FlightRecorder::FlightRecorder(int rank, const std::filesystem::path& folder) : rank_(rank) {
  const int fd = folder.empty() ? -1 : open_file(file_of(folder, rank), sizeof(Memory));
  memory_.reset(new (map(fd, sizeof(Memory))) Memory());
  memory_->header[1] = static_cast<uint64_t>(rank);
  memory_->header[2] = static_cast<uint64_t>(monotonic_ns());
  memory_->header[0] = kMagic;
}

uint64_t FlightRecorder::next_number(const Channel& channel) {
  const std::lock_guard lock(mutex_);
  return ++state_of(channel, counts_).started;
}

// The plan of the last step stays, because the rank may wait for its calls later.
void FlightRecorder::at_step(int64_t step, std::shared_ptr<const Plan> plan) {
  step_ = step;
  position_ = 0;
  if (plan == nullptr) return;
  const std::lock_guard lock(mutex_);
  plan_ = std::move(plan);
  planned_step_ = step;
}

PlanPlace FlightRecorder::next_planned() {
  return {.step = step_, .position = step_ == 0 ? 0 : ++position_};
}

uint64_t FlightRecorder::begin(const rt_collective& c, uint64_t communicator,
                               const CallPurpose& purpose) {
  const uint64_t sequence = started_.load(std::memory_order_relaxed) + 1;
  if (sequence - completed_.load(std::memory_order_relaxed) > kSlots)
    throw CommunicationError(std::to_string(kSlots) +
                             " collectives are in flight at once, no more can be followed; raise "
                             "comm.bucket_mb so that there are fewer");
  const int64_t now = monotonic_ns();
  CollectiveRecord record{sequence, c.kind,       c.dtype, c.reduction, c.peer,
                          c.count,  communicator, now,     now,         0};
  record.number = next_number(record.channel());
  record.micro_batch = purpose.micro_batch;
  record.step = purpose.place.step;
  record.position = purpose.place.position;
  record.set_label(purpose.label);
  const auto words = std::bit_cast<Words>(record);
  Slot& to = slot(sequence);
  to[kSequence].store(0, std::memory_order_relaxed);
  // Each store is a release, so that a reader that sees a word of this record also sees that the
  // sequence number is 0 or new.
  for (size_t i = 1; i < words.size(); ++i) to[i].store(words[i], std::memory_order_release);
  to[kSequence].store(sequence, std::memory_order_release);
  started_.store(sequence, std::memory_order_release);
  return sequence;
}

void FlightRecorder::running(uint64_t sequence) {
  slot(sequence)[kWait].store(0, std::memory_order_release);
}

void FlightRecorder::waiting(uint64_t sequence) {
  slot(sequence)[kWait].store(static_cast<uint64_t>(monotonic_ns()), std::memory_order_release);
}

void FlightRecorder::end(uint64_t sequence) {
  slot(sequence)[kEnd].store(static_cast<uint64_t>(monotonic_ns()), std::memory_order_release);
  const uint64_t started = started_.load(std::memory_order_relaxed);
  uint64_t completed = completed_.load(std::memory_order_relaxed);
  while (completed < started && slot(completed + 1)[kEnd].load(std::memory_order_relaxed) != 0)
    ++completed;
  completed_.store(completed, std::memory_order_release);
}

// The counts are read first: what begins meanwhile is pending, and its number is above them.
std::vector<ChannelState> FlightRecorder::channels() const {
  std::unique_lock lock(mutex_);
  std::vector<ChannelState> states = counts_;
  lock.unlock();
  for (const ChannelState& recorded : records().channels()) {
    ChannelState& state = state_of(recorded.channel, states);
    state.started = std::max(state.started, recorded.started);
    state.pending = recorded.pending;
  }
  return states;
}

CollectiveRecord FlightRecorder::read(const Slot& slot) {
  Words words;
  const uint64_t sequence = slot[kSequence].load(std::memory_order_acquire);
  for (size_t i = 1; i < words.size(); ++i) words[i] = slot[i].load(std::memory_order_acquire);
  words[kSequence] = slot[kSequence].load(std::memory_order_relaxed) == sequence ? sequence : 0;
  return std::bit_cast<CollectiveRecord>(words);
}

CollectiveRecord FlightRecorder::pending(bool waited_for) const {
  const uint64_t completed = this->completed(), started = this->started();
  for (uint64_t sequence = completed + 1; sequence <= started; ++sequence) {
    const CollectiveRecord r = read(slot(sequence));
    if (r.sequence == sequence && r.end_ns == 0 && (r.wait_ns != 0 || !waited_for)) return r;
  }
  return {};
}

RankRecords FlightRecorder::records() const {
  RankRecords result{rank_, static_cast<int64_t>(memory_->header[2].load()), {}};
  {
    const std::lock_guard lock(mutex_);
    result.plan = plan_;
    result.step = planned_step_;
  }
  for (const Slot& from : memory_->slots) {
    const CollectiveRecord r = read(from);
    if (r.sequence != 0) result.records.push_back(r);
  }
  finish(result);
  return result;
}

std::optional<RankRecords> read_recorder(const std::filesystem::path& folder, int rank) {
  const std::filesystem::path path = file_of(folder, rank);
  std::error_code ignored;
  std::array<Words, 1 + FlightRecorder::kSlots> file;
  static_assert(sizeof(file) == sizeof(FlightRecorder::Memory));
  if (!std::filesystem::is_regular_file(path, ignored) ||
      std::filesystem::file_size(path, ignored) != sizeof(file))
    return std::nullopt;
  std::ifstream stream(path, std::ios::binary);
  if (!stream.read(reinterpret_cast<char*>(file.data()), sizeof(file))) return std::nullopt;
  if (file[0][0] != kMagic || static_cast<int>(file[0][1]) != rank) return std::nullopt;
  RankRecords result{rank, static_cast<int64_t>(file[0][2]), {}};
  for (size_t i = 0; i < FlightRecorder::kSlots; ++i) {
    const auto r = std::bit_cast<CollectiveRecord>(file[i + 1]);
    if (makes_sense(r, i)) result.records.push_back(r);
  }
  finish(result);
  return result;
}

bool has_recorder(const std::filesystem::path& folder, int rank) {
  std::error_code ignored;
  return !folder.empty() && std::filesystem::is_regular_file(file_of(folder, rank), ignored);
}

}  // namespace runtime::watch
