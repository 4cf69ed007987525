// The thread that makes the calls of MPI for one communicator.
#ifndef COLLECTIVES_MPI_PROGRESS_THREAD_H_
#define COLLECTIVES_MPI_PROGRESS_THREAD_H_

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "collectives.h"
#include "rt/sdk/error.h"

namespace collectives::mpi {

using Clock = std::chrono::steady_clock;

// A call or task that was submitted to a progress thread. Its mutex guards `queued`, `done` and
// `error`.
struct Call {
  rt_collective collective{};
  std::function<void()> task;  // if set, it runs instead of `collective`
  bool meets = true;           // whether it starts only once all ranks have submitted it
  // The collective in shared memory that it is; nullptr: none.
  std::shared_ptr<shared_memory::HostCollectives::Operation> shared;
  Clock::time_point begun = Clock::now();
  bool queued = false;  // whether the progress thread has it
  bool done = false;
  std::optional<rt::sdk::Error> error;
};

// Collectives and tasks run one after the other, as blocking calls. Sends and receives are posted
// at once and never wait for them. A collective in shared memory is carried out by the thread that
// waits for it, unless the others need more of this rank than its vector. MPI keeps a core busy
// while it waits, so the thread makes a blocking call only when all ranks have called it; until
// then it sleeps and checks from time to time. All functions may be called from any thread and do
// not wait, unless said otherwise.
class ProgressThread {
 public:
  // Starts the thread. The thread frees `team.comm` when it ends, unless that is MPI_COMM_WORLD or
  // null.
  static std::shared_ptr<ProgressThread> start(const Team& team);
  ~ProgressThread() = default;
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  const Team& team() const { return team_; }
  // Called once, by the first task of a progress thread that was started without a communicator.
  void set_team(const Team& team) { team_ = team; }

  // Submit a collective or a task. Throw the error that has ended this communicator, if there is
  // one. `meets` is Call::meets.
  std::shared_ptr<Call> submit(const rt_collective& collective);
  std::shared_ptr<Call> submit(std::function<void()> task, bool meets);
  // Waits. Returns true if the call is done, and throws if it failed. Returns false if the deadline
  // has passed first.
  bool wait(const std::shared_ptr<Call>& call, Clock::time_point deadline);

  // Lets the thread carry out a collective in shared memory, because the caller waits no more.
  void release(const std::shared_ptr<Call>& call);

  // Fails all pending and later calls. The running collective and sends go on.
  void abort();
  // The error that has ended this communicator, if there is one.
  std::optional<rt::sdk::Error> failure();

  // Ends the thread; waits at most half a second for calls that have started. Returns false if
  // something is left unfinished in this process or in MPI, so that MPI cannot be finalized.
  bool close();

 private:
  struct Message {
    std::shared_ptr<Call> call;
    std::vector<MPI_Request> requests;  // MPI_REQUEST_NULL once done
    std::optional<rt::sdk::Error> error;
  };

  explicit ProgressThread(const Team& team) : team_(team) {}
  std::shared_ptr<Call> submit(std::shared_ptr<Call> call);
  bool wait_shared(const std::shared_ptr<Call>& call, Clock::time_point deadline);
  bool advance_shared(Call& call, Clock::time_point deadline);
  rt::sdk::Error shared_failure();
  void run();
  bool step();
  void accept(const std::shared_ptr<Call>& call);
  void post(const std::shared_ptr<Call>& call);
  bool test_messages();
  bool test(Message& message);
  bool step_collectives();
  bool arrived(const Call& call);
  void cancel_receives();
  void fail(const rt::sdk::Error& error);
  void fail_pending();
  void finish(Call& call, std::optional<rt::sdk::Error> error);
  void sleep(std::unique_lock<std::mutex>& lock, Clock::duration idle);
  void free_communicator();

  Team team_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable wake_;      // wakes the thread
  std::condition_variable finished_;  // a call or the thread has finished
  std::vector<std::shared_ptr<Call>> fresh_;
  std::optional<rt::sdk::Error> failure_;
  std::shared_ptr<Call> last_shared_;  // the last collective in shared memory; they end in order
  int waiters_ = 0;
  bool closing_ = false;
  bool ended_ = false;
  bool clean_ = true;

  // Used only by the thread.
  std::deque<std::shared_ptr<Call>> collectives_;
  std::list<Message> messages_;
  MPI_Request arrival_ = MPI_REQUEST_NULL;  // the barrier before the first of `collectives_`
  bool left_over_ = false;                  // whether a request was abandoned
};

}  // namespace collectives::mpi

#endif  // COLLECTIVES_MPI_PROGRESS_THREAD_H_
