// Says for whom ranks wait while the job may still go on.
#ifndef RUNTIME_WATCH_INQUIRY_H_
#define RUNTIME_WATCH_INQUIRY_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "runtime/watch/board_link.h"
#include "runtime/watch/diagnose.h"
#include "runtime/watch/job_board.h"

namespace runtime::watch {

// Once a rank has waited for long in a collective, all ranks say on a board of their own how far
// they are, and one of them says who keeps the others waiting. The next time the ranks must wait
// twice as long. If memory is too short for that, there are no more inquiries. Nothing is sent
// while no rank waits for long. Equivalent to: nothing in PyTorch, whose watchdog speaks when it
// ends the job.
class Inquiry {
 public:
  struct Options {
    std::chrono::nanoseconds first;    // the time to wait before the first inquiry
    std::chrono::nanoseconds longest;  // and at most, once what they waited for is over
    // Returns an incident if this rank has waited for that long. The thread of the inquiry calls
    // it.
    std::function<std::optional<Incident>(std::chrono::nanoseconds)> late;
    // Posts what this rank knows, and returns what one rank has found out. The incident is empty if
    // this rank does not wait.
    std::function<Verdict(BoardLink&, const Incident&)> find_out;
    // Called if this rank is that one.
    std::function<void(const std::string&)> say;
  };

  // Starts a thread. The board must outlive the inquiry.
  Inquiry(JobBoard& board, int rank, Options options);
  ~Inquiry() { stop(); }
  Inquiry(const Inquiry&) = delete;
  Inquiry& operator=(const Inquiry&) = delete;

  // No inquiry begins after this; one that has begun is given up.
  void stop();

 private:
  class Current;

  void run();
  void ask_again_and_again();
  std::optional<Incident> wait(JobBoard& board, std::chrono::nanoseconds& limit);
  void ask(BoardLink& link, const Incident& incident);

  JobBoard& board_;
  const int rank_;
  const Options options_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable wake_;
  bool stop_ = false;
  BoardLink* link_ = nullptr;  // of the inquiry that has begun; null: none has
  std::thread thread_;
};

}  // namespace runtime::watch

#endif  // RUNTIME_WATCH_INQUIRY_H_
