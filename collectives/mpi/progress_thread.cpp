// Queues calls for the progress thread, which polls MPI with naps and completes or aborts them.
#include "progress_thread.h"

#include <sys/prctl.h>

#include <algorithm>
#include <utility>

#include "rt/sdk/error.h"
#include "rt/sdk/operation.h"
#include "status.h"

namespace collectives::mpi {
namespace {

using namespace std::chrono_literals;
using rt::sdk::Error;
using rt::sdk::format;

constexpr int kTag = 1;
constexpr auto kGrace = 250ms;  // for calls that run when a communicator is destroyed

// How the progress thread polls MPI: first without pauses, then with sleeps of about 1/kNapFraction
// of the time waited so far, so that the relative delay of a result stays small. While no other
// thread of this rank is blocked in wait() for a result, sleeping leaves the core to other work.
// While one is, the core would be idle, and an idle core takes 50 us and more to wake up; so the
// progress's thread then polls longer without pauses.
constexpr Clock::duration kSpin = 5us;
constexpr Clock::duration kSpinOfWaiter = 1ms;
constexpr Clock::duration kShortestNap = 20us;
constexpr Clock::duration kLongestNap = 200us;
constexpr Clock::duration kLongestNapOfWaiter = 50us;
constexpr int kNapFraction = 8;

bool is_message(const Call& call) {
  return !call.task && (call.collective.kind == RT_SEND || call.collective.kind == RT_RECEIVE);
}

// Returns true once the request is done; it is then null. Throws if the request failed or brought
// fewer elements than expected.
bool is_done(MPI_Request& request, const rt_collective& call, uint64_t expected) {
  int done = 0, count = 0;
  MPI_Status status;
  check(MPI_Test(&request, &done, &status), "MPI_Test", RT_SCOPE_OPERATION);
  if (done == 0 || call.kind != RT_RECEIVE) return done != 0;
  MPI_Get_count(&status, mpi_type(call.dtype), &count);
  if (static_cast<uint64_t>(count) == expected) return true;
  throw Error(RT_ERROR_COMMUNICATION,
              rt::sdk::format("rank %d sent %d elements, %llu were expected", call.peer, count,
                              static_cast<unsigned long long>(expected)));
}

}  // namespace

std::shared_ptr<ProgressThread> ProgressThread::start(const Team& team) {
  std::shared_ptr<ProgressThread> progress(new ProgressThread(team));
  // The thread shares ownership of the ProgressThread, because close() leaves a thread behind that
  // hangs in MPI.
  progress->thread_ = std::thread([progress] { progress->run(); });
  return progress;
}

std::shared_ptr<Call> ProgressThread::submit(const rt_collective& collective) {
  auto call = std::make_shared<Call>();
  call->collective = collective;
  if (team_.host_collectives == nullptr || !team_.host_collectives->takes(collective))
    return submit(std::move(call));
  if (const auto error = failure()) throw Error(*error);
  try {
    call->shared = team_.host_collectives->start(collective);
  } catch (const std::exception&) {
    throw Error(shared_failure());
  }
  {
    const std::lock_guard lock(mutex_);
    last_shared_ = call;
  }
  return team_.host_collectives->is_sent(*call->shared) ? call : submit(call);
}

std::shared_ptr<Call> ProgressThread::submit(std::function<void()> task, bool meets) {
  auto call = std::make_shared<Call>();
  call->task = std::move(task);
  call->meets = meets;
  return submit(std::move(call));
}

std::shared_ptr<Call> ProgressThread::submit(std::shared_ptr<Call> call) {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
  call->queued = true;
  fresh_.push_back(call);
  wake_.notify_one();
  return call;
}

// Does what can be done for a collective in shared memory, and waits for the rest until the
// deadline. Returns whether it is over, in whatever way.
bool ProgressThread::advance_shared(Call& call, Clock::time_point deadline) {
  std::optional<Error> error;
  try {
    if (!team_.host_collectives->wait(*call.shared, deadline)) return false;
  } catch (const std::exception&) {
    error = shared_failure();
  }
  finish(call, error);
  return true;
}

// Ends the communicator with the exception that is being handled, unless it has ended before, which
// is what Interrupted means. Returns the error that has ended it.
Error ProgressThread::shared_failure() {
  try {
    throw;
  } catch (const shared_memory::Interrupted&) {
  } catch (const shared_memory::Disagreement& e) {
    fail(Error(RT_ERROR_COMMUNICATION, format("rank %d %s", e.peer, e.what()),
               RT_SCOPE_COMMUNICATOR));
  } catch (const std::exception& e) {
    fail(Error(RT_ERROR_INTERNAL, e.what(), RT_SCOPE_COMMUNICATOR));
  }
  return *failure();
}

// MPI may have kept back messages that this rank has sent, and delivers them only in its calls. So
// if the wait is longer than computing makes ranks differ, the progress thread makes calls
// meanwhile: the rank that is waited for may itself wait for such a message.
bool ProgressThread::wait_shared(const std::shared_ptr<Call>& call, Clock::time_point deadline) {
  const auto soon = call->begun + kSpinOfWaiter;
  if (advance_shared(*call, std::min(deadline, soon))) return true;
  if (Clock::now() < soon) return false;
  release(call);
  return advance_shared(*call, deadline);
}

void ProgressThread::release(const std::shared_ptr<Call>& call) {
  const std::lock_guard lock(mutex_);
  if (!call->shared || call->queued || call->done || failure_) return;
  call->queued = true;
  fresh_.push_back(call);
  wake_.notify_one();
}

bool ProgressThread::wait(const std::shared_ptr<Call>& call, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (call->shared && !call->done) {
    lock.unlock();
    if (!wait_shared(call, deadline)) return false;
    lock.lock();
  }
  if (!call->done && deadline > Clock::now()) {
    ++waiters_;
    wake_.notify_one();
    finished_.wait_until(lock, deadline, [&] { return call->done; });
    --waiters_;
  }
  if (call->done && call->error) throw Error(*call->error);
  return call->done;
}

// Interrupts with the lock held: whoever sees the failure may free memory that all-reduces use.
void ProgressThread::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
  wake_.notify_one();
  if (team_.host_collectives) team_.host_collectives->interrupt();
}

void ProgressThread::abort() {
  fail(Error(RT_ERROR_ABORTED, "the communicator was aborted", RT_SCOPE_COMMUNICATOR));
}

std::optional<Error> ProgressThread::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool ProgressThread::close() {
  std::unique_lock lock(mutex_);
  closing_ = true;
  wake_.notify_one();
  const bool ended = finished_.wait_for(lock, 2 * kGrace, [&] { return ended_; });
  if (team_.host_collectives)
    team_.host_collectives->interrupt();  // a thread that is left behind may come back
  lock.unlock();
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
  return ended && clean_;
}

void ProgressThread::run() {
  prctl(PR_SET_TIMERSLACK, 1000UL);  // ns; the default makes naps 50 us longer
  auto active = Clock::now();
  Clock::time_point end = Clock::time_point::max();
  std::unique_lock lock(mutex_);
  for (;;) {
    const bool busy = !collectives_.empty() || !messages_.empty();
    if (!busy) wake_.wait(lock, [&] { return closing_ || !fresh_.empty(); });
    if (closing_ && end == Clock::time_point::max()) end = Clock::now() + kGrace;
    if (closing_ && ((!busy && fresh_.empty()) || failure_ || Clock::now() >= end)) break;
    if (!busy) active = Clock::now();
    const bool failed = failure_.has_value();
    const auto fresh = std::exchange(fresh_, {});
    const bool closing = closing_;
    lock.unlock();
    for (const auto& call : fresh) accept(call);
    if (failed) fail_pending();
    if (closing) cancel_receives();
    const bool progress = step();
    const auto now = Clock::now();
    if (progress) active = now;
    lock.lock();
    if (now - active > kSpin) sleep(lock, now - active);
  }
  lock.unlock();
  free_communicator();
  lock.lock();
  ended_ = true;
  finished_.notify_all();
}

void ProgressThread::sleep(std::unique_lock<std::mutex>& lock, Clock::duration idle) {
  if (!fresh_.empty() || (collectives_.empty() && messages_.empty())) return;
  if (waiters_ > 0 && idle < kSpinOfWaiter) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
    return;
  }
  const auto longest = waiters_ > 0 ? kLongestNapOfWaiter : kLongestNap;
  wake_.wait_for(lock, std::clamp(idle / kNapFraction, kShortestNap, longest));
}

// Does nothing if the call is finished: the progress thread and a thread that waits may both finish
// one.
void ProgressThread::finish(Call& call, std::optional<Error> error) {
  const std::lock_guard lock(mutex_);
  if (call.done) return;
  call.error = std::move(error);
  call.done = true;
  finished_.notify_all();
}

void ProgressThread::accept(const std::shared_ptr<Call>& call) {
  if (!is_message(*call)) {
    collectives_.push_back(call);
    return;
  }
  try {
    post(call);
  } catch (const Error& error) {
    finish(*call, error);
  }
}

void ProgressThread::post(const std::shared_ptr<Call>& call) {
  const rt_collective& c = call->collective;
  const uint64_t bytes = rt::sdk::dtype_bytes(c.dtype);
  Message message{call, {}, std::nullopt};
  in_parts(c.count, team_.limits.largest_count, [&](uint64_t offset, int n) {
    message.requests.push_back(MPI_REQUEST_NULL);
    MPI_Request* request = &message.requests.back();
    if (c.kind == RT_SEND) {
      check(MPI_Isend(static_cast<const char*>(c.send) + offset * bytes, n, mpi_type(c.dtype),
                      c.peer, kTag, team_.comm, request),
            "MPI_Isend", RT_SCOPE_OPERATION);
    } else {
      check(MPI_Irecv(static_cast<char*>(c.receive) + offset * bytes, n, mpi_type(c.dtype), c.peer,
                      kTag, team_.comm, request),
            "MPI_Irecv", RT_SCOPE_OPERATION);
    }
  });
  messages_.push_back(std::move(message));
}

bool ProgressThread::step() {
  const bool messages = test_messages();
  return step_collectives() || messages;
}

bool ProgressThread::test_messages() {
  const std::size_t before = messages_.size();
  messages_.remove_if([&](Message& message) {
    if (!test(message)) return false;
    finish(*message.call, message.error);
    return true;
  });
  return messages_.size() < before;
}

// The chunks of a message arrive in order, so after one that has not arrived the rest need not be
// tested.
bool ProgressThread::test(Message& message) {
  const rt_collective& c = message.call->collective;
  uint64_t left = c.count;
  for (MPI_Request& request : message.requests) {
    const uint64_t expected = std::min(left, team_.limits.largest_count);
    left -= expected;
    if (request == MPI_REQUEST_NULL) continue;
    try {
      if (!is_done(request, c, expected)) return false;
    } catch (const Error& error) {
      message.error = error;
    }
  }
  return true;
}

bool ProgressThread::arrived(const Call& call) {
  if (!call.meets || team_.size == 1) return true;
  if (arrival_ == MPI_REQUEST_NULL) check(MPI_Ibarrier(team_.comm, &arrival_), "MPI_Ibarrier");
  int done = 0;
  check(MPI_Test(&arrival_, &done, MPI_STATUS_IGNORE), "MPI_Ibarrier");
  return done != 0;
}

bool ProgressThread::step_collectives() {
  if (collectives_.empty()) return false;
  const std::shared_ptr<Call> call = collectives_.front();
  if (call->shared) {
    if (!advance_shared(*call, Clock::time_point::min())) {
      int flag = 0;  // of no interest, as errors are: the call delivers messages
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, team_.comm, &flag, MPI_STATUS_IGNORE);
      return false;
    }
    collectives_.pop_front();
    return true;
  }
  std::optional<Error> error;
  try {
    if (!arrived(*call)) return false;
    if (call->task) {
      call->task();
    } else if (call->collective.kind != RT_BARRIER) {
      carry_out(team_, call->collective);
    }
  } catch (const Error& failed) {
    error = failed;
  } catch (const std::exception& failed) {
    error = Error(RT_ERROR_INTERNAL, failed.what());
  }
  collectives_.pop_front();
  // After a failed collective a rank does not know how far the others got in it, so later calls
  // could be paired wrongly: the communicator is ended.
  if (error && !call->task) fail(*error);
  finish(*call, error);
  return true;
}

void ProgressThread::cancel_receives() {
  messages_.remove_if([&](Message& message) {
    if (message.call->collective.kind != RT_RECEIVE) return false;
    for (MPI_Request& request : message.requests) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    finish(*message.call,
           Error(RT_ERROR_ABORTED, "the receive was given up", RT_SCOPE_COMMUNICATOR));
    return true;
  });
}

void ProgressThread::fail_pending() {
  const Error error = *failure();
  cancel_receives();
  for (const auto& call : collectives_) finish(*call, error);
  collectives_.clear();
  left_over_ = left_over_ || arrival_ != MPI_REQUEST_NULL;
}

void ProgressThread::free_communicator() {
  std::unique_lock lock(mutex_);
  // The other ranks that an all-reduce waits for may never come to MPI_Finalize.
  const bool shared = last_shared_ && (!last_shared_->done || last_shared_->error);
  const bool idle =
      messages_.empty() && collectives_.empty() && fresh_.empty() && !left_over_ && !shared;
  clean_ = idle && (!failure_ || failure_->code() == RT_ERROR_ABORTED);
  lock.unlock();
  if (!clean_ || team_.comm == MPI_COMM_NULL || team_.comm == MPI_COMM_WORLD) return;
  MPI_Comm_free(&team_.comm);
}

}  // namespace collectives::mpi
