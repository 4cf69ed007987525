// The thread that makes the calls of MPI for one communicator.
#ifndef COLLECTIVES_MPI_OWNER_H_
#define COLLECTIVES_MPI_OWNER_H_

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

// Something that an owner was asked to do. `done` and `error` are guarded by the owner's mutex.
struct Call {
  rt_collective collective{};
  std::function<void()> task;  // if set, it is run in place of `collective`
  bool meets = true;           // begins when every rank of the communicator has come to it
  bool done = false;
  std::optional<rt::sdk::Error> error;
};

// Collectives and tasks run one after the other, as blocking calls; sends and receives are posted
// at once and never wait for those. MPI waits by burning its core, so a blocking call is made only
// when all ranks have come: until then the thread sleeps, and looks from time to time. Functions
// may be called from any thread and do not wait, unless said otherwise.
class Owner {
 public:
  // Starts the thread. It frees `team.comm` in the end, unless that is MPI_COMM_WORLD or null.
  static std::shared_ptr<Owner> start(const Team& team);
  ~Owner() = default;
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  const Team& team() const { return team_; }
  // Once, by the first task of an owner that was started without a communicator.
  void set_team(const Team& team) { team_ = team; }

  // Throws the error that has ended this communicator, if one has.
  std::shared_ptr<Call> submit(const rt_collective& collective);
  std::shared_ptr<Call> submit(std::function<void()> task, bool meets);
  // Waits. True: done, and throws if it failed. False: the deadline passed first.
  bool wait(const std::shared_ptr<Call>& call, Clock::time_point deadline);

  // What is running now, and sends, go on; all else fails, now and later.
  void abort();
  std::optional<rt::sdk::Error> failure();

  // Ends the thread, waiting at most half a second for what has been started. False: something is
  // left, in this process or in MPI, and MPI cannot be ended in order.
  bool close();

 private:
  struct Message {
    std::shared_ptr<Call> call;
    std::vector<MPI_Request> requests;  // null once done
    std::optional<rt::sdk::Error> error;
  };

  explicit Owner(const Team& team) : team_(team) {}
  std::shared_ptr<Call> submit(std::shared_ptr<Call> call);
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
  std::condition_variable wake_;      // of the thread
  std::condition_variable finished_;  // a call, or the thread
  std::vector<std::shared_ptr<Call>> fresh_;
  std::optional<rt::sdk::Error> failure_;
  int waiters_ = 0;
  bool closing_ = false;
  bool ended_ = false;
  bool clean_ = true;

  // Of the thread alone.
  std::deque<std::shared_ptr<Call>> collectives_;
  std::list<Message> messages_;
  MPI_Request arrival_ = MPI_REQUEST_NULL;  // of the first of `collectives_`
  bool left_over_ = false;                  // a request was given up
};

}  // namespace collectives::mpi

#endif  // COLLECTIVES_MPI_OWNER_H_
