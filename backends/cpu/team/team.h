// The threads that compute an operation together.
//
// An opened device has one team. It serves our own loops (parallel.h) and those of oneDNN
// (onednn_openmp.cpp). Its threads start before the first operation and stay until the device is
// closed. A thread that has nothing to do polls before it sleeps, so that the next region begins
// within a microsecond. Equivalent to: the thread pool of an OpenMP library. libgomp has one pool
// for each thread that calls, and ends threads where a region has fewer parts than the one before.
#ifndef BACKENDS_CPU_TEAM_TEAM_H_
#define BACKENDS_CPU_TEAM_TEAM_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/cpu/team/signal.h"

namespace backends::cpu {

// Thread-safe: the regions of several calling threads follow each other.
class Team {
 public:
  using Task = void (*)(void* data);

  // A team of `threads` threads (at least 1), of which the one that begins a region is the first.
  // They should not be more than the processors: each waits for all others. With `pins` each of the
  // others stays on one processor, in the order of processors.h. Starts no thread.
  explicit Team(int threads, bool pins = false);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int threads() const { return threads_; }

  // Calls task(data) once for each of `parts` parts, which may be more than the threads, and
  // returns when all calls have. part() tells them apart. The task throws nothing. A thread that
  // comes late, because it slept or another process had its processor, finds its parts done by the
  // thread that began the region. In a region the calling thread runs all parts.
  void run_parts(int parts, Task task, void* data);

  // Like run_parts(), but the parts, at most threads() of them, run at the same time and may call
  // meet(). In a region the calling thread runs part 0 of 1 alone.
  void run_together(int parts, Task task, void* data);
  // Returns when all parts of the region have called it; at once outside.
  static void meet();

  // The place of the calling thread in the region that it is in; part 0 of 1 outside.
  static int part();
  static int parts();
  // Whether the calling thread is in a region of several threads.
  static bool in_region();

  // The team with which the calling thread computes; null if it computes alone.
  static Team* current();

  // While it lives, the calling thread computes with `team`, whose threads it starts if they do not
  // exist yet. Throws rt::sdk::Error (RT_ERROR_OUT_OF_MEMORY), with the limits in its text, if the
  // system does not give them.
  class Use {
   public:
    explicit Use(Team& team);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Team* before_;
  };

 private:
  // What the thread that begins regions and another one of the team tell each other. Each share of
  // a region, and what follows after each meeting, has a number: `go` says that it can begin,
  // `arrived` that it is done.
  struct Member {
    Signal go, arrived;
    // The share that is open to both: twice its number, and whether one of them has taken it.
    alignas(64) std::atomic<uint32_t> open{0};
    uint32_t number = 0;  // of the last share; the thread that begins regions counts
  };
  // What the threads of a region do. Share i has the parts i, i + shares, i + 2 * shares...
  struct Region {
    Task task = nullptr;  // none ends the threads
    void* data = nullptr;
    int parts = 1, shares = 1;
  };
  // What the calling thread does.
  struct Place {
    Team* team = nullptr;
    int part = 0, parts = 1;  // in the innermost region
    bool inside = false;      // in a region of several threads
    uint32_t number = 0;      // of the share of this thread, if it is one of the other threads
  };

  static Place& place();
  void start();
  void serve(int share);
  void run(const Region& region, bool together);
  void begin(int shares);
  void wait_for(int shares);
  void run_share(int share);
  static bool take(Member& member, uint32_t number);

  const int threads_;
  const bool pins_;
  const std::chrono::nanoseconds polling_;
  std::vector<Member> members_;  // the first is not used
  std::vector<std::thread> others_;
  std::atomic<bool> started_ = false;
  std::mutex mutex_;  // is held while the team starts, and while a region runs
  Region region_;
};

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_TEAM_TEAM_H_
