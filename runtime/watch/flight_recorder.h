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
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rt/communicator.h"

namespace runtime::watch {

// The calls that must come in the same order on the ranks that make them: the collectives of one
// communicator, or the sends of one rank to another and the receives of the other. Each channel has
// numbers of its own, so that ranks of a mesh, which do not share all communicators, can be
// compared.
struct Channel {
  uint64_t communicator = 0;  // number given by the caller
  int32_t direction = 0;      // RT_SEND or RT_RECEIVE; 0: collectives
  int32_t peer = -1;          // of a send or receive, as a rank of the communicator
  bool operator==(const Channel&) const = default;
};

// Times are nanoseconds of the monotonic clock, which processes of one machine share.
struct CollectiveRecord {
  uint64_t sequence = 0;  // 1, 2, ... in the order in which the rank began them, over all channels
  int32_t kind = 0;       // RT_ALL_REDUCE ...
  int32_t dtype = 0;
  int32_t reduction = 0;
  int32_t peer = -1;
  uint64_t count = 0;
  uint64_t communicator = 0;
  int64_t start_ns = 0;
  int64_t wait_ns = 0;      // since when the rank's thread waits for it; 0: it does not wait
  int64_t end_ns = 0;       // when the rank saw its completion; 0: not yet
  uint64_t number = 0;      // 1, 2, ... in its channel
  int64_t micro_batch = 0;  // from 1; 0: none, or not known
  int64_t step = 0;         // of training, from 1; 0: in none
  int64_t position = 0;     // from 1, in the Plan of the step; 0: not in one
  // What is sent, e.g. "bucket 0" or the name of a layer, cut after 32 bytes; the rest is zeros.
  std::array<char, 32> label = {};

  Channel channel() const;
  std::string_view label_text() const;
  void set_label(std::string_view text);
};

// A PlanItem is one thing that a rank does with its communicators: it starts `call`, which has no
// numbers and times yet, or, if `waits`, it goes on only when the call of this position is
// complete.
struct PlanItem {
  CollectiveRecord call = {};
  bool waits = false;
};
// A plan lists what a rank does in one step, in order. Its calls have the positions 1, 2, ...;
// call_plan.h has functions for it.
using Plan = std::vector<PlanItem>;

// How far a rank is in one channel.
struct ChannelState {
  Channel channel;
  uint64_t started = 0;  // the number of the last call that the rank has begun
  // The oldest call that has not completed and for which the rank's thread waits, else the oldest
  // that has not completed; sequence 0: all have completed.
  CollectiveRecord pending = {};
};

// The records of one rank, ordered by sequence number.
struct RankRecords {
  int rank = 0;
  int64_t origin_ns = 0;  // when its recorder was made
  std::vector<CollectiveRecord> records;
  // The step that the rank has begun last, and its plan; null: not known.
  int64_t step = 0;
  std::shared_ptr<const Plan> plan = nullptr;
  std::vector<ChannelState> channels() const;  // of the channels that the records name
};

// The ranks that share each communicator of a job.
struct Groups {
  std::vector<std::string> names = {};  // by communicator: "the tensor axis"; "": is not named
  // The ranks of the communicator that `rank` is in, in their order there; null: all ranks.
  std::function<std::vector<int>(uint64_t communicator, int rank)> members = nullptr;
};

// Nanoseconds of the monotonic clock.
int64_t monotonic_ns();
// Describes a call of `rank`: "all_reduce #17 of the tensor axis (431080 float32, fc1)", "send #3
// to rank 4 along the pipeline axis (...)"; "collective 77 ..." for an unknown kind.
std::string describe(const CollectiveRecord& record, const Groups& groups = {}, int rank = 0);
// One line for each of the last 64 collectives and for each that still runs; times from the rank's
// start.
std::string dump(const RankRecords& records, int64_t now_ns, const Groups& groups = {});

// A PlanPlace says which call of which step's plan a call is, as CollectiveRecord does.
struct PlanPlace {
  int64_t step = 0, position = 0;
};
// A CallPurpose says what a call is for, as CollectiveRecord does.
struct CallPurpose {
  std::string_view label = {};
  int64_t micro_batch = 0;
  PlanPlace place = {};
};

// begin, running, waiting, end, at_step and next_planned are called by the rank's thread and are a
// few stores each, with one lock in begin that nobody else holds until something goes wrong: no
// system call, and no allocation once each channel has been used. The other functions: any thread.
class FlightRecorder {
 public:
  // The largest number of collectives in flight at once. A power of two; the records take 128 KiB.
  static constexpr size_t kSlots = 1024;

  // With a folder (the launcher's private one, on this machine) the records lie in a file there,
  // which outlives the process. Throws CommunicationError if the file cannot be made.
  explicit FlightRecorder(int rank, const std::filesystem::path& folder = {});

  // Called before the collective is enqueued; returns its sequence number. The rank counts as
  // waiting for it until running() is called, so that an enqueue that never returns is noticed.
  // Throws CommunicationError if kSlots collectives are in flight.
  uint64_t begin(const rt_collective& collective, uint64_t communicator = 0,
                 const CallPurpose& purpose = {});
  void running(uint64_t sequence);  // enqueued; the rank's thread goes on with other work
  void waiting(uint64_t sequence);  // the rank's thread waits for it from now on
  void end(uint64_t sequence);      // it has completed
  // The rank follows this plan from now on, in this step of training; 0: in none.
  void at_step(int64_t step, std::shared_ptr<const Plan> plan = nullptr);
  // Returns the place of the next call of the plan; {} in no step.
  PlanPlace next_planned();

  int rank() const { return rank_; }
  // The numbers of collectives that have begun, and that have completed with all before them.
  uint64_t started() const { return started_.load(std::memory_order_acquire); }
  uint64_t completed() const { return completed_.load(std::memory_order_acquire); }
  // How far the rank is in each channel that it has used, and its last records.
  std::vector<ChannelState> channels() const;
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
  friend std::optional<RankRecords> read_recorder(const std::filesystem::path& folder, int rank);

  Slot& slot(uint64_t sequence) const { return memory_->slots[sequence % kSlots]; }
  static CollectiveRecord read(const Slot& slot);
  uint64_t next_number(const Channel& channel);

  int rank_;
  int64_t step_ = 0, position_ = 0;
  std::unique_ptr<Memory, Unmap> memory_;
  std::atomic<uint64_t> started_ = 0, completed_ = 0;
  mutable std::mutex mutex_;
  std::vector<ChannelState> counts_;  // without pending calls; guarded by mutex_
  std::shared_ptr<const Plan> plan_;  // guarded by mutex_, as is the next member
  int64_t planned_step_ = 0;
};

// The recorder of a rank in a folder, without records with impossible contents; nullopt: there is
// none. Works while the recorder's owner runs, is stopped, or has died.
std::optional<RankRecords> read_recorder(const std::filesystem::path& folder, int rank);
// Whether there is a file of that rank's recorder; in the folder "" there is none.
bool has_recorder(const std::filesystem::path& folder, int rank);

}  // namespace runtime::watch

#endif  // RUNTIME_WATCH_FLIGHT_RECORDER_H_
