// Keeps the last collectives of a rank in memory that the rank's watchdog can read, and that other
// ranks on this machine can read after the rank has died. Equivalent to: the NCCL flight recorder
// of PyTorch.
#ifndef RUNTIME_WATCH_FLIGHT_RECORDER_H_
#define RUNTIME_WATCH_FLIGHT_RECORDER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rt/communicator.h"

namespace runtime::watch {

// Times are nanoseconds of the monotonic clock, which processes of one machine share.
struct CollectiveRecord {
  uint64_t sequence = 0;  // 1, 2, ... in the order in which the rank began them
  int32_t kind = 0;       // RT_ALL_REDUCE ...
  int32_t dtype = 0;
  int32_t reduction = 0;
  int32_t peer = -1;
  uint64_t count = 0;
  uint64_t communicator = 0;  // number given by the caller; 0 for the whole job
  int64_t start_ns = 0;
  int64_t wait_ns = 0;  // since when the rank's thread waits for it; 0: it does not wait
  int64_t end_ns = 0;   // when the rank saw its completion; 0: not yet
};

// How far a rank is: every collective up to `completed` has ended, those up to `started` have
// begun.
struct Position {
  uint64_t started = 0;
  uint64_t completed = 0;
};

// The records of one rank, ordered by sequence number.
struct RankRecords {
  int rank = 0;
  int64_t origin_ns = 0;  // when its recorder was made
  std::vector<CollectiveRecord> records;
  Position position() const;
};

// Nanoseconds of the monotonic clock.
int64_t monotonic_ns();
// "all_reduce #17 (431080 float32)"; "collective 77 ..." for an unknown kind.
std::string describe(const CollectiveRecord& record);
// One line for each of the last 64 collectives and for each that still runs; times from the rank's
// start.
std::string dump(const RankRecords& records, int64_t now_ns);

// begin, running, waiting and end are called by the rank's thread and are a few stores each: no
// lock, no system call, no allocation. The other functions: any thread.
class FlightRecorder {
 public:
  // The largest number of collectives in flight at once. A power of two; the records take 64 KiB.
  static constexpr size_t kSlots = 1024;

  // With a folder (the launcher's private one, on this machine) the records lie in a file there,
  // which outlives the process. Throws CommunicationError if the file cannot be made.
  explicit FlightRecorder(int rank, const std::filesystem::path& folder = {});

  // Called before the collective is enqueued; returns its sequence number. The rank counts as
  // waiting for it until running() is called, so that an enqueue that never returns is noticed.
  // Throws CommunicationError if kSlots collectives are in flight.
  uint64_t begin(const rt_collective& collective, uint64_t communicator = 0);
  void running(uint64_t sequence);  // enqueued; the rank's thread goes on with other work
  void waiting(uint64_t sequence);  // the rank's thread waits for it from now on
  void end(uint64_t sequence);      // it has completed

  int rank() const { return rank_; }
  // How far the rank is, and its last records.
  Position position() const;
  RankRecords records() const;
  // The oldest collective that has not completed; with `waited_for` the oldest of those that the
  // rank's thread waits for. Its sequence is 0 if there is none.
  CollectiveRecord pending(bool waited_for) const;

 private:
  using Slot = std::array<std::atomic<uint64_t>, sizeof(CollectiveRecord) / sizeof(uint64_t)>;
  struct Memory {
    Slot header;  // word 0: magic number, 1: rank, 2: origin_ns
    std::array<Slot, kSlots> slots;
  };
  struct Unmap {
    void operator()(Memory* memory) const;
  };
  friend std::map<int, RankRecords> read_recorders(const std::filesystem::path& folder);

  Slot& slot(uint64_t sequence) const { return memory_->slots[sequence % kSlots]; }
  static CollectiveRecord read(const Slot& slot);

  int rank_;
  std::unique_ptr<Memory, Unmap> memory_;
  std::atomic<uint64_t> started_ = 0, completed_ = 0;
};

// The recorders in a folder, by rank. Other files, and records with impossible contents, are left
// out. Works while the recorders' owners run, are stopped, or have died.
std::map<int, RankRecords> read_recorders(const std::filesystem::path& folder);

}  // namespace runtime::watch

#endif  // RUNTIME_WATCH_FLIGHT_RECORDER_H_
