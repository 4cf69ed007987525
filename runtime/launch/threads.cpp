// Starts a thread for each rank, and keeps the error that caused the others.
#include "runtime/launch/threads.h"

#include <mutex>
#include <thread>
#include <vector>

#include "plugins/host/error.h"
#include "runtime/error.h"
#include "runtime/launch/cores.h"

namespace runtime::launch {

namespace {

// Whether the exception that is being handled is possibly a mere consequence of the failure of
// another rank.
bool is_consequence() {
  try {
    throw;
  } catch (const Error& e) {
    return e.exit_code() == ExitCode::kCommunication;
  } catch (const plugins::host::Error& e) {
    return e.is_of_communication();
  } catch (...) {
    return false;
  }
}

// Keeps the exception that says why the ranks have ended.
class Cause {
 public:
  explicit Cause(const std::function<void()>& abort_all) : abort_all_(abort_all) {}

  // Adds the exception that is being handled.
  void add() {
    const bool consequence = is_consequence();
    bool first = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      first = kept_ == nullptr;
      if (first || (kept_is_consequence_ && !consequence)) {
        kept_ = std::current_exception();
        kept_is_consequence_ = consequence;
      }
    }
    if (first && abort_all_) abort_all_();
  }

  void rethrow() const {
    if (kept_ != nullptr) std::rethrow_exception(kept_);
  }

 private:
  const std::function<void()>& abort_all_;
  std::mutex mutex_;
  std::exception_ptr kept_;
  bool kept_is_consequence_ = false;
};

}  // namespace

void run_rank_threads(const RankThreads& threads) {
  const Cores cores = allowed_cores();
  Cause cause(threads.abort_all);
  std::vector<std::jthread> running;  // joined at the end, whatever happens
  const auto run = [&](int rank) {
    try {
      apply(share_of(cores, rank, threads.ranks));
      threads.body(rank);
    } catch (...) {
      cause.add();
    }
  };
  try {
    running.reserve(static_cast<size_t>(threads.ranks));
    for (int rank = 0; rank < threads.ranks; ++rank) running.emplace_back(run, rank);
  } catch (...) {  // the system gives no more threads
    cause.add();
  }
  running.clear();
  cause.rethrow();
}

}  // namespace runtime::launch
